//! Owned partitions while the database, or an instance, is in trouble.

use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

use pillarbox::store::{Holding, Instance, Mode, Owner, Ownership, Status, Taken, Visit};
use pillarbox::{Delivery, Event, ListenerError, MemoryStore, Outbox, PARTITIONS, partition_of};
use pillarbox_testkit::acceptance::Desk;

use crate::faults::{Faults, FaultyStore};
use crate::owning::run_of;
use crate::stage::{HOUR, Notes, SECOND, Stage, placed, write};

const TENTH: Duration = Duration::from_millis(100);

/// An instance that keeps order, on a store that fails as its faults say.
fn start(stage: &Stage, seen: &Notes<Delivery>) -> (Outbox<FaultyStore>, Arc<Faults>) {
    let (builder, faults) = stage.faulty();
    (builder.ordered().on("OrderPlaced", seen.listener()).start().unwrap(), faults)
}

/// Nothing of an instance gets through any more, or everything does again.
fn cut(faults: &Faults, calls: u32) {
    for call in [&faults.members, &faults.reads, &faults.settles] {
        call.next(calls);
    }
}

/// The lease under which an owner reads the event of an order.
async fn taken_of(stage: &Stage, held: &[Holding], order: &str) -> Taken {
    let Holding { partition, epoch, floor, .. } = held[usize::from(partition_of(order))];
    let visit = Visit { partition, epoch, floor, in_flight: Vec::new() };
    stage.store.fetch(&[visit], 1).await.unwrap().remove(0).taken
}

/// S10: calls that fail, and answers that are lost, cost nothing but time.
#[tokio::test(start_paused = true)]
async fn failing_calls_are_repeated() {
    let (stage, seen) = (Stage::set(), Notes::<Delivery>::new());
    let (outbox, faults) = start(&stage, &seen);
    for failing in
        [&faults.members, &faults.member_answers, &faults.reads, &faults.read_panics, &faults.settles]
    {
        failing.next(3);
    }

    for order in 1..=5 {
        write(&outbox, placed(&format!("order-{order}"))).await;
        stage.pass(10 * SECOND).await;
    }

    assert_eq!(seen.len(), 5, "{:?}", seen.ids());
    assert_eq!(outbox.counts().done, 5);
    assert_eq!(outbox.partitions().len(), PARTITIONS);
}

/// O6: where a read takes longer than the time between two polls, everything is read all the same.
#[tokio::test(start_paused = true)]
async fn slow_reads_keep_no_other_waiting() {
    let (stage, seen) = (Stage::set(), Notes::<Delivery>::new());
    let (builder, faults) = stage.faulty();
    *faults.reads_take.lock().unwrap() = SECOND;
    let builder = builder.poll_every(SECOND / 10).ordered();
    let outbox = builder.on("OrderPlaced", seen.listener()).start().unwrap();
    stage.pass(10 * SECOND).await;

    write(&outbox, placed("order-1")).await;
    stage.pass(10 * SECOND).await;

    assert_eq!(seen.ids(), ["order-1"]);
    assert_eq!(outbox.counts().done, 1);
}

/// D13: what becomes due of a partition while a key of it is being read is looked for right after, and not at the next
/// poll.
#[tokio::test(start_paused = true)]
async fn event_that_is_due_waits_for_no_read_of_another_key() {
    let (stage, seen) = (Stage::set(), Notes::<Delivery>::new());
    let mut keys = (2..).map(|number| format!("order-{number}"));
    let neighbour = keys.find(|key| partition_of(key) == partition_of("order-1")).unwrap();
    stage.insert(run_of("order-1", 2)).await;
    stage.insert(run_of(&neighbour, 1)).await;
    let (builder, faults) = stage.faulty();
    let listener = seen.answering(|delivery| match (delivery.attempt(), delivery.id()) {
        (1, "order-1.1") => Err(ListenerError::retry_after(SECOND, "429")),
        (2, _) | (_, "order-1.2") => Ok(()),
        _ => Err(ListenerError::retry_after(SECOND + 4 * TENTH, "429")),
    });
    let outbox = builder.ordered().poll_every(HOUR).on("OrderPlaced", listener).start().unwrap();
    stage.pass(TENTH).await;
    assert_eq!(seen.len(), 2);

    // At 1.3 s the first key goes on, and is read until 1.6 s.
    *faults.reads_take.lock().unwrap() = 3 * TENTH;
    stage.pass(3 * SECOND).await;

    assert_eq!(seen.ids()[2..], ["order-1.1", "order-1.2", &format!("{neighbour}.1")].map(str::to_owned));
    assert_eq!(outbox.counts().done, 3);
}

/// P1: who asks for a poll is answered once everything was looked at, though it is wanted again before that.
#[tokio::test(start_paused = true)]
async fn poll_ends_though_reads_take_longer_than_the_time_between_two() {
    let (stage, seen) = (Stage::set(), Notes::<Delivery>::new());
    let (builder, faults) = stage.faulty();
    *faults.reads_take.lock().unwrap() = SECOND;
    let builder = builder.poll_every(SECOND / 10).ordered();
    let outbox = builder.on("OrderPlaced", seen.listener()).start().unwrap();
    stage.insert(vec![placed("order-1")]).await;

    tokio::select! {
        biased;
        polled = outbox.poll() => polled.unwrap(),
        () = stage.pass(HOUR) => panic!("it never ends"),
    }
    stage.pass(SECOND).await;

    assert_eq!(seen.ids(), ["order-1"]);
}

/// O5: who cannot reach the database delivers nothing more once its leases have ended, and another takes over; what it
/// records later is refused.
#[tokio::test(start_paused = true)]
async fn instance_without_a_database_is_replaced() {
    let (stage, seen) = (Stage::set(), Notes::<Delivery>::new());
    let (listener, mut desk) = Desk::open();
    let (builder, faults) = stage.faulty();
    let builder = builder.delivery_timeout(HOUR / 4).lease_for(HOUR / 2).ordered();
    let cut_off = builder.on("OrderPlaced", listener).start().unwrap();
    stage.pass(SECOND).await;
    write(&cut_off, placed("order-1")).await;
    let call = desk.next().await;

    cut(&faults, u32::MAX);
    let (other, _) = start(&stage, &seen);
    stage.pass(29 * SECOND).await;
    assert_eq!(seen.len(), 0, "the leases last");
    stage.pass(10 * SECOND).await;
    assert_eq!(seen.ids(), ["order-1"], "another has taken over");
    assert!(call.is_cancelled(), "the delivery was cut off when the leases ended");
    cut(&faults, 0);
    stage.pass(60 * SECOND).await;

    assert_eq!(stage.status("order-1").await, Status::Done);
    assert_eq!((cut_off.counts().done, other.counts().done), (0, 1));
    assert_eq!(cut_off.partitions().len() + other.partitions().len(), PARTITIONS);
}

/// O5, S10: after an outage for all, nobody takes from another what that one still holds; nothing comes twice.
#[tokio::test(start_paused = true)]
async fn outage_for_all_moves_nothing() {
    let (stage, seen) = (Stage::set(), Notes::<Delivery>::new());
    let members = [start(&stage, &seen), start(&stage, &seen)];
    stage.pass(60 * SECOND).await;
    let shares = || [members[0].0.partitions(), members[1].0.partitions()].map(|floors| floors.len());
    assert_eq!(shares(), [PARTITIONS / 2; 2]);

    members.iter().for_each(|(_, faults)| cut(faults, u32::MAX));
    stage.pass(300 * SECOND).await;
    members.iter().for_each(|(_, faults)| cut(faults, 0));
    for order in 1..=20 {
        write(&members[0].0, placed(&format!("order-{order}"))).await;
    }
    stage.pass(60 * SECOND).await;

    assert_eq!((seen.len(), seen.distinct().len()), (20, 20));
    assert_eq!(shares(), [PARTITIONS / 2; 2]);
}

/// O5, D12: an event over which owners die again and again runs alone, and is dead at last.
#[tokio::test(start_paused = true)]
async fn event_that_kills_its_owners_is_dead_at_last() {
    let (stage, seen) = (Stage::set(), Notes::<Delivery>::new());
    stage.pending(&["order-1"]).await;
    let all: Vec<u8> = (0..=u8::MAX).collect();
    for incarnation in 0..7 {
        let victim = Instance {
            owner: Owner::new("victim", incarnation),
            is_named: true,
            mode: Mode::Ownership,
            live_for: 30 * SECOND,
        };
        stage.store.join(&victim).await.unwrap();
        let held = stage.store.acquire(&victim, &all).await.unwrap();
        let taken = taken_of(&stage, &held, "order-1").await;
        if held.iter().any(|holding| holding.crashes >= 2) {
            assert!(stage.store.start(&taken).await.unwrap());
        }
    }

    let (_outbox, _faults) = start(&stage, &seen);
    stage.pass(60 * SECOND).await;

    assert_eq!(seen.len(), 0, "nobody dies over it any more");
    assert_eq!(stage.status("order-1").await, Status::Dead);
    let error = stage.row("order-1").await.last_error.unwrap();
    assert!(error.contains("the process died"), "{error}");
}

/// O5: an instance whose delivery never ends gives its partitions up, and another goes on.
#[expect(clippy::disallowed_methods, reason = "a thread that hangs does so in real time")]
#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn instance_that_hangs_is_replaced() {
    let (store, seen) = (MemoryStore::new(), Notes::<Delivery>::new());
    let (release, blocked) = mpsc::channel::<()>();
    let blocked = Arc::new(std::sync::Mutex::new(blocked));
    let hanging = move |_: Delivery| {
        let blocked = blocked.clone();
        async move {
            // A bug that nobody can cancel: it holds the thread.
            let _ = blocked.lock().unwrap().recv();
            Ok::<_, ListenerError>(())
        }
    };
    let brisk = |outbox: pillarbox::OutboxBuilder<MemoryStore>| {
        let tick = Duration::from_millis(20);
        outbox.ordered().delivery_timeout(tick).margin(tick).heartbeat_every(tick).silent_after(10 * tick)
    };
    let hung = brisk(Outbox::builder(store.clone())).workers(1).on("OrderPlaced", hanging).start().unwrap();
    hung.poll().await.unwrap();
    let event = Event::builder("OrderPlaced").id("order-1").key("order-1").json_text("{}").build().unwrap();
    write(&hung, event).await;

    let other = brisk(Outbox::builder(store)).on("OrderPlaced", seen.listener()).start().unwrap();
    let taking_over = async {
        while seen.len() == 0 {
            other.poll().await.unwrap();
            tokio::task::yield_now().await;
        }
    };
    let taken_over = tokio::time::timeout(60 * SECOND, taking_over).await;

    assert!(taken_over.is_ok(), "the one that hangs keeps its partitions");
    release.send(()).unwrap();
    drop(release);
    assert_eq!(seen.ids(), ["order-1"]);
    hung.close().await;
    assert_eq!(hung.counts().done, 0, "what it delivered at last is not its own to record");
}
