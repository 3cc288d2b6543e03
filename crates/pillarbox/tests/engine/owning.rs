//! Owned partitions: order by key, shares, and handing over.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pillarbox::store::{Holding, Instance, Mode, Owner, Ownership, Status};
use pillarbox::{
    DeadHead, Delivery, Event, ListenerError, MemoryStore, Outbox, OutboxBuilder, PARTITIONS, Retry, Source,
    Stopped,
};
use pillarbox_testkit::acceptance::Desk;

use crate::stage::{HOUR, MILLISECOND, Notes, SECOND, Stage, placed, write};

/// An event with an id of its own, of a key.
fn of_key(key: &str, id: &str) -> Event {
    Event::builder("OrderPlaced").id(id).key(key).json_text("{}").build().unwrap()
}

/// Events `key.1` to `key.n` of a key.
fn run_of(key: &str, count: usize) -> Vec<Event> {
    (1..=count).map(|number| of_key(key, &format!("{key}.{number}"))).collect()
}

fn ordered(stage: &Stage) -> OutboxBuilder<MemoryStore> {
    stage.outbox().ordered()
}

/// What is known of an instance that nobody has started.
fn instance(name: &str, mode: Mode) -> Instance {
    Instance { owner: Owner::new(name, 1), is_named: false, mode, live_for: 30 * SECOND }
}

/// Joins and takes every partition that is free, as a process would that then dies.
async fn take_all(stage: &Stage, name: &str) -> Vec<Holding> {
    let instance = instance(name, Mode::Ownership);
    stage.store.join(&instance).await.unwrap();
    let all: Vec<u8> = (0..=u8::MAX).collect();
    stage.store.acquire(&instance, &all).await.unwrap()
}

/// The ids of each key, in the order of their deliveries.
fn by_key(seen: &Notes<Delivery>) -> BTreeMap<String, Vec<String>> {
    let mut keys: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for delivery in seen.all() {
        let key = delivery.key().unwrap().to_owned();
        keys.entry(key).or_default().push(delivery.id().to_owned());
    }
    keys
}

/// O1, O2: the events of a key are delivered one after the other, in order, and keys beside each other.
#[tokio::test(start_paused = true)]
async fn events_of_a_key_arrive_one_by_one_in_order() {
    let (stage, seen) = (Stage::set(), Notes::<Delivery>::new());
    let running: Arc<Mutex<BTreeMap<String, usize>>> = Arc::default();
    let most_at_once = Notes::<usize>::new();
    let (noted, most, clock) = (seen.clone(), most_at_once.clone(), stage.runtime.clock.clone());
    let listener = move |delivery: Delivery| {
        let (running, noted, most, pause) =
            (running.clone(), noted.clone(), most.clone(), clock.sleep(10 * MILLISECOND));
        async move {
            let key = delivery.key().unwrap().to_owned();
            {
                let mut running = running.lock().unwrap();
                assert_eq!(running.insert(key.clone(), 1), None, "two of {key} at once");
                most.note(running.len());
            }
            noted.note(delivery);
            pause.await;
            running.lock().unwrap().remove(&key);
            Ok::<_, ListenerError>(())
        }
    };
    for round in 0..4 {
        for key in 0..10 {
            stage.insert(vec![of_key(&format!("order-{key}"), &format!("{key}.{round}"))]).await;
        }
    }

    let outbox = ordered(&stage).workers(8).on("OrderPlaced", listener).start().unwrap();
    stage.pass(10 * SECOND).await;

    for (key, ids) in by_key(&seen) {
        let number = key.trim_start_matches("order-");
        let expected: Vec<String> = (0..4).map(|round| format!("{number}.{round}")).collect();
        assert_eq!(ids, expected, "of {key}");
    }
    assert_eq!((seen.len(), outbox.counts().done), (40, 40));
    assert_eq!(most_at_once.all().into_iter().max(), Some(8), "keys do not wait for each other");
}

/// O6, P5: a commit in this process wakes the owner at once, and nothing is delivered from memory.
#[tokio::test(start_paused = true)]
async fn commit_wakes_its_owner_at_once() {
    let (stage, seen) = (Stage::set(), Notes::<Delivery>::new());
    let outbox = ordered(&stage).poll_every(HOUR).on("OrderPlaced", seen.listener()).start().unwrap();
    stage.pass(SECOND).await;

    write(&outbox, placed("order-1")).await;
    stage.pass(MILLISECOND).await;

    assert_eq!(seen.ids(), ["order-1"]);
    assert_eq!(seen.all()[0].source(), Source::Cold);
    let counts = outbox.counts();
    assert_eq!((counts.hot_enqueued, counts.hot_dropped, counts.read_backs), (0, 0, 0));
    assert!(!outbox.enqueue_hot(placed("order-2")), "there is no hot queue");
}

/// O6: a key with a long backlog is read in runs, not one event per poll.
#[tokio::test(start_paused = true)]
async fn long_backlog_of_one_key_needs_few_reads() {
    let (stage, seen) = (Stage::set(), Notes::<Delivery>::new());
    stage.insert(run_of("order-1", 1_000)).await;

    let outbox = ordered(&stage).poll_every(HOUR).on("OrderPlaced", seen.listener()).start().unwrap();
    stage.pass(10 * SECOND).await;

    let expected: Vec<String> = (1..=1_000).map(|number| format!("order-1.{number}")).collect();
    assert_eq!(seen.ids(), expected);
    assert!(outbox.counts().takes < 40, "{} reads", outbox.counts().takes);
}

/// O7: an event that fails holds its key back, and no other; then they follow in order.
#[tokio::test(start_paused = true)]
async fn failing_event_holds_its_key_and_no_other() {
    let (stage, seen) = (Stage::set(), Notes::<Delivery>::new());
    stage.insert(run_of("order-1", 5)).await;
    let listener = seen.answering(|delivery| match (delivery.id(), delivery.attempt()) {
        ("order-1.2", 1..=3) => Err(ListenerError::new("not yet")),
        _ => Ok(()),
    });
    let outbox =
        ordered(&stage).retry(Retry::fixed(10 * SECOND)).on("OrderPlaced", listener).start().unwrap();
    stage.pass(SECOND).await;

    stage.insert(run_of("order-2", 3)).await;
    outbox.poll().await.unwrap();
    stage.pass(SECOND).await;
    let held = by_key(&seen);
    stage.pass(60 * SECOND).await;

    assert_eq!(held["order-1"], ["order-1.1", "order-1.2"]);
    assert_eq!(held["order-2"], ["order-2.1", "order-2.2", "order-2.3"]);
    let tries = ["order-1.1", "order-1.2", "order-1.2", "order-1.2", "order-1.2", "order-1.3", "order-1.4"];
    assert_eq!(by_key(&seen)["order-1"][..7], tries);
    assert_eq!(seen.ids().last().unwrap(), "order-1.5");
}

/// O7: with `stop_on_first_failure` off, those that follow pass the one that failed.
#[tokio::test(start_paused = true)]
async fn others_pass_a_failing_event_if_they_may() {
    let (stage, seen) = (Stage::set(), Notes::<Delivery>::new());
    stage.insert(run_of("order-1", 3)).await;
    let listener = seen.answering(|delivery| match (delivery.id(), delivery.attempt()) {
        ("order-1.1", 1) => Err(ListenerError::new("not yet")),
        _ => Ok(()),
    });

    let outbox = ordered(&stage).stop_on_first_failure(false).retry(Retry::fixed(10 * SECOND));
    let _outbox = outbox.on("OrderPlaced", listener).start().unwrap();
    stage.pass(60 * SECOND).await;

    assert_eq!(seen.ids(), ["order-1.1", "order-1.2", "order-1.3", "order-1.1"]);
}

/// O7: a dead event lets its key go on without it, by default.
#[tokio::test(start_paused = true)]
async fn dead_event_releases_its_key() {
    let (stage, seen) = (Stage::set(), Notes::<Delivery>::new());
    stage.insert(run_of("order-1", 3)).await;
    let listener = seen.answering(|delivery| match delivery.id() {
        "order-1.1" => Err(ListenerError::permanent("never")),
        _ => Ok(()),
    });

    let _outbox = ordered(&stage).on("OrderPlaced", listener).start().unwrap();
    stage.pass(60 * SECOND).await;

    assert_eq!(seen.ids(), ["order-1.1", "order-1.2", "order-1.3"]);
    assert_eq!(stage.status("order-1.1").await, Status::Dead);
}

/// O7: a parked key waits, over a restart too, until an operator skips what it was parked for; then it goes on in order.
#[tokio::test(start_paused = true)]
async fn parked_key_waits_for_an_operator() {
    let (stage, seen) = (Stage::set(), Notes::<Delivery>::new());
    stage.insert(run_of("order-1", 3)).await;
    let start = || {
        let listener = seen.answering(|delivery| match delivery.id() {
            "order-1.1" => Err(ListenerError::permanent("never")),
            _ => Ok(()),
        });
        ordered(&stage).on_dead_head(DeadHead::Park).on("OrderPlaced", listener).start().unwrap()
    };
    let first = start();
    stage.pass(60 * SECOND).await;
    first.close().await;
    let second = start();
    stage.insert(vec![of_key("order-1", "order-1.4")]).await;
    stage.pass(60 * SECOND).await;
    assert_eq!(seen.ids(), ["order-1.1"], "the key is parked");

    assert_eq!(stage.store.skip(&["order-1".to_owned()]).await.unwrap(), 1);
    stage.pass(60 * SECOND).await;

    assert_eq!(seen.ids(), ["order-1.1", "order-1.2", "order-1.3", "order-1.4"]);
    assert_eq!(second.counts().done, 3);
}

/// O3: events without a key go to the partitions of their writer, and wait for nothing.
#[tokio::test(start_paused = true)]
async fn events_without_a_key_stay_with_their_writer() {
    let (stage, seen) = (Stage::set(), Notes::<Delivery>::new());
    let outbox = ordered(&stage).poll_every(HOUR).on("OrderPlaced", seen.listener()).start().unwrap();
    stage.pass(SECOND).await;

    for _ in 0..20 {
        write(&outbox, Event::of_json("OrderPlaced", "{}").unwrap()).await;
    }
    stage.pass(MILLISECOND).await;

    assert_eq!(seen.len(), 20);
}

/// O4: two instances come to equal shares, and each event is delivered once.
#[tokio::test(start_paused = true)]
async fn instances_share_the_partitions() {
    let (stage, seen) = (Stage::set(), [Notes::<Delivery>::new(), Notes::<Delivery>::new()]);
    let start = |seen: &Notes<Delivery>| ordered(&stage).on("OrderPlaced", seen.listener()).start().unwrap();
    let first = start(&seen[0]);
    stage.pass(SECOND).await;
    let second = start(&seen[1]);
    stage.pass(60 * SECOND).await;

    for order in 0..512 {
        stage.pending(&[&format!("order-{order}")]).await;
    }
    stage.pass(60 * SECOND).await;

    let shares = [first.partitions(), second.partitions()].map(|partitions| partitions.len());
    assert_eq!(shares, [PARTITIONS / 2, PARTITIONS / 2]);
    assert_eq!(seen[0].len() + seen[1].len(), 512);
    assert!(seen.iter().all(|seen| seen.len() > 100), "{} and {}", seen[0].len(), seen[1].len());
}

/// O4: while the members stay, nothing moves, for a day.
#[tokio::test(start_paused = true)]
async fn nothing_moves_while_the_members_stay() {
    let (stage, seen) = (Stage::set(), Notes::<Delivery>::new());
    let start = || ordered(&stage).on("OrderPlaced", seen.listener()).start().unwrap();
    let members: Vec<Outbox<MemoryStore>> = (0..3).map(|_| start()).collect();
    stage.pass(120 * SECOND).await;
    let shares = || members.iter().map(Outbox::partitions).collect::<Vec<_>>();
    let before = shares();
    let mut sizes: Vec<usize> = before.iter().map(Vec::len).collect();
    sizes.sort_unstable();
    assert_eq!(sizes, [85, 85, 86]);

    stage.pass(24 * HOUR).await;

    assert_eq!(shares(), before, "with the same epochs");
}

/// O5: a graceful stop gives everything back, so that the next owner waits for nothing.
#[tokio::test(start_paused = true)]
async fn graceful_stop_gives_everything_back() {
    let (stage, seen) = (Stage::set(), Notes::<Delivery>::new());
    let outbox = ordered(&stage).on("OrderPlaced", seen.listener()).start().unwrap();
    stage.pass(10 * SECOND).await;
    assert_eq!(outbox.partitions().len(), PARTITIONS);

    outbox.close().await;
    let taken = take_all(&stage, "next").await;

    assert_eq!(taken.len(), PARTITIONS);
    assert!(taken.iter().all(|holding| holding.crashes == 0), "nobody has crashed");
}

/// O5: the partitions of an instance that fell silent are taken over, and not before.
#[tokio::test(start_paused = true)]
async fn partitions_of_the_dead_are_taken_over() {
    let (stage, seen) = (Stage::set(), Notes::<Delivery>::new());
    assert_eq!(take_all(&stage, "victim").await.len(), PARTITIONS);
    stage.pending(&["order-1"]).await;
    let died = stage.now();
    let outbox = ordered(&stage).on("OrderPlaced", seen.listener()).start().unwrap();

    stage.pass(29 * SECOND).await;
    assert_eq!(seen.len(), 0, "the lease lasts");
    stage.pass(7 * SECOND).await;

    assert_eq!(seen.ids(), ["order-1"]);
    assert!(stage.now() - died <= 36 * SECOND);
    assert_eq!(outbox.partitions().len(), PARTITIONS);
}

/// O5: what runs when a partition is to be handed over ends first, and its followers are delivered by the next owner.
#[tokio::test(start_paused = true)]
async fn partition_is_handed_over_when_it_is_drained() {
    let (stage, (listener, mut desk)) = (Stage::set(), Desk::open());
    let older = ordered(&stage).delivery_timeout(HOUR / 4).lease_for(HOUR / 2).workers(64);
    let older = older.on("OrderPlaced", listener).start().unwrap();
    stage.pass(SECOND).await;
    for order in 0..32 {
        stage.insert(run_of(&format!("order-{order}"), 2)).await;
    }
    older.poll().await.unwrap();
    stage.quiet().await;

    let seen = Notes::<Delivery>::new();
    let younger = ordered(&stage).on("OrderPlaced", seen.listener()).start().unwrap();
    stage.pass(60 * SECOND).await;
    assert_eq!(seen.len(), 0, "the first of each key still runs");
    while let Some(call) = desk.waiting() {
        call.succeed();
        stage.quiet().await;
    }
    stage.pass(60 * SECOND).await;

    assert!(seen.ids().iter().all(|id| id.ends_with(".2")), "{:?}", seen.ids());
    assert!(!seen.ids().is_empty());
    assert_eq!(younger.partitions().len(), PARTITIONS / 2);
    assert_eq!(older.counts().lost_leases, 0);
    assert_eq!(older.counts().done + younger.counts().done, 64);
}

/// S6: an instance of the other mode is refused, with the names of those who are alive.
#[tokio::test(start_paused = true)]
async fn other_mode_is_refused() {
    let (stage, seen) = (Stage::set(), Notes::<Delivery>::new());
    stage.store.join(&instance("relay-7", Mode::Claims)).await.unwrap();

    let outbox = ordered(&stage).on("OrderPlaced", seen.listener()).start().unwrap();
    let stopped = outbox.run(std::future::pending()).await;

    let Err(Stopped::Refused(reason)) = stopped else { panic!("{stopped:?}") };
    assert!(reason.contains("relay-7") && reason.contains("claims"), "{reason}");
}

/// S10: an instance whose name another bears by now stops at its next heartbeat.
#[tokio::test(start_paused = true)]
async fn older_namesake_stops_by_its_heartbeat() {
    let (stage, seen) = (Stage::set(), Notes::<Delivery>::new());
    let start = || ordered(&stage).name("relay-1").on("OrderPlaced", seen.listener()).start().unwrap();
    let older = start();
    stage.pass(SECOND).await;

    let younger = start();
    assert_eq!(older.stopped().await, Stopped::Superseded);
    stage.pass(SECOND).await;

    assert_eq!((older.partitions().len(), younger.partitions().len()), (0, PARTITIONS));
}

/// O5: a named instance that died and is started again has its partitions at once, before anybody counts it as dead.
#[tokio::test(start_paused = true)]
async fn restarted_instance_takes_over_its_own() {
    let (stage, seen) = (Stage::set(), Notes::<Delivery>::new());
    let before = Instance { is_named: true, ..instance("relay-1", Mode::Ownership) };
    stage.store.join(&before).await.unwrap();
    stage.store.acquire(&before, &(0..=u8::MAX).collect::<Vec<_>>()).await.unwrap();
    stage.pending(&["order-1"]).await;

    let outbox = ordered(&stage).name("relay-1").on("OrderPlaced", seen.listener()).start().unwrap();
    stage.pass(SECOND).await;

    assert_eq!(seen.ids(), ["order-1"]);
    assert_eq!(outbox.partitions().len(), PARTITIONS);
}

/// O2: without order, keys are not waited for.
#[tokio::test(start_paused = true)]
async fn ownership_without_order_waits_for_nothing() {
    let (stage, (listener, mut desk)) = (Stage::set(), Desk::open());
    stage.insert(run_of("order-1", 3)).await;

    let outbox = stage.outbox().mode(Mode::Ownership).on("OrderPlaced", listener).start().unwrap();
    stage.pass(SECOND).await;

    let calls = [desk.next().await, desk.next().await, desk.next().await];
    calls.into_iter().for_each(|call| call.succeed());
    stage.pass(SECOND).await;
    assert_eq!(outbox.counts().done, 3);
}

/// A delay is not a failure: the key goes on, and the event comes when it is due.
#[tokio::test(start_paused = true)]
async fn delayed_event_holds_nobody() {
    let (stage, seen) = (Stage::set(), Notes::<Delivery>::new());
    let outbox = ordered(&stage).on("OrderPlaced", seen.listener()).start().unwrap();
    stage.pass(SECOND).await;

    let late = Event::builder("OrderPlaced").id("late").key("order-1").json_text("{}");
    write(&outbox, late.deliver_after(Duration::from_secs(60))).await;
    write(&outbox, of_key("order-1", "order-1.2")).await;
    stage.pass(59 * SECOND).await;
    assert_eq!(seen.ids(), ["order-1.2"]);
    stage.pass(2 * SECOND).await;

    assert_eq!(seen.ids(), ["order-1.2", "late"]);
}
