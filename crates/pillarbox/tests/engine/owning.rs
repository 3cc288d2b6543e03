//! Owned partitions: order by key.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pillarbox::store::{Mode, Ownership, Status};
use pillarbox::{
    DeadHead, Delivery, Event, ListenerError, MemoryStore, OutboxBuilder, PARTITIONS, Retry, Source,
};
use pillarbox_testkit::acceptance::Desk;

use crate::stage::{HOUR, MILLISECOND, Notes, SECOND, Stage, placed, write};

/// An event with an id of its own, of a key.
fn of_key(key: &str, id: &str) -> Event {
    Event::builder("OrderPlaced").id(id).key(key).json_text("{}").build().unwrap()
}

/// Events `key.1` to `key.n` of a key.
pub(crate) fn run_of(key: &str, count: usize) -> Vec<Event> {
    (1..=count).map(|number| of_key(key, &format!("{key}.{number}"))).collect()
}

fn ordered(stage: &Stage) -> OutboxBuilder<MemoryStore> {
    stage.outbox().ordered()
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

/// O3: events without a key go to partitions of their writer, which need nobody else, and wait for nothing.
#[tokio::test(start_paused = true)]
async fn events_without_a_key_stay_with_their_writer() {
    let (stage, here, elsewhere) = (Stage::set(), Notes::<Delivery>::new(), Notes::<Delivery>::new());
    let start = |seen: &Notes<Delivery>| {
        ordered(&stage).poll_every(HOUR).on("OrderPlaced", seen.listener()).start().unwrap()
    };
    let (outbox, other) = (start(&here), start(&elsewhere));
    stage.pass(60 * SECOND).await;
    assert_eq!((outbox.partitions().len(), other.partitions().len()), (PARTITIONS / 2, PARTITIONS / 2));

    for _ in 0..300 {
        write(&outbox, Event::of_json("OrderPlaced", "{}").unwrap()).await;
    }
    stage.pass(MILLISECOND).await;

    assert_eq!((here.len(), elsewhere.len()), (300, 0));
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
