//! Finding in the table what was not delivered from memory.

use std::time::Duration;

use pillarbox::store::{EventStore, Owner, Status, Take, Token};
use pillarbox::{Delivery, Event, Source};
use pillarbox_testkit::acceptance::Desk;
use tracing::Level;

use crate::logs::Logs;
use crate::stage::{HOUR, MILLISECOND, Notes, SECOND, Stage, orders, placed, placing, write};

/// P1, P3: what is due is taken at the start, and then at every interval.
#[tokio::test(start_paused = true)]
async fn due_events_are_taken_at_every_interval() {
    let (stage, seen) = (Stage::set(), Notes::<Delivery>::new());
    stage.pending(&["order-1"]).await;
    let _outbox = stage.outbox().on("OrderPlaced", seen.listener()).poll_every(7 * SECOND).start().unwrap();
    stage.quiet().await;
    assert_eq!(seen.ids(), ["order-1"]);

    stage.pending(&["order-2"]).await;
    stage.pass(6 * SECOND).await;
    assert_eq!(seen.len(), 1);
    stage.pass(SECOND).await;

    assert_eq!(seen.ids(), ["order-1", "order-2"]);
    assert!(seen.all().iter().all(|delivery| delivery.source() == Source::Cold));
}

/// P1: `poll` runs one cycle at once.
#[tokio::test(start_paused = true)]
async fn poll_runs_one_cycle_now() {
    let (stage, seen) = (Stage::set(), Notes::<Delivery>::new());
    let outbox = stage.outbox().on("OrderPlaced", seen.listener()).poll_every(HOUR).start().unwrap();
    stage.quiet().await;
    stage.pending(&["order-1"]).await;

    outbox.poll().await.unwrap();
    stage.pass(MILLISECOND).await;

    assert_eq!(seen.ids(), ["order-1"]);
}

/// P1: events that are younger than `skip_recent` are left to others.
#[tokio::test(start_paused = true)]
async fn recent_events_are_skipped() {
    let (stage, seen) = (Stage::set(), Notes::<Delivery>::new());
    stage.pending(&["order-1"]).await;
    let _outbox = stage.outbox().on("OrderPlaced", seen.listener()).skip_recent(30 * SECOND).start().unwrap();

    stage.pass(29 * SECOND).await;
    assert_eq!(seen.len(), 0);
    stage.pass(7 * SECOND).await;

    assert_eq!(seen.ids(), ["order-1"]);
}

/// P3: the earliest available event comes first, ties by number.
#[tokio::test(start_paused = true)]
async fn earliest_available_event_comes_first() {
    let (stage, seen) = (Stage::set(), Notes::<Delivery>::new());
    let now = stage.runtime.clock.wall();
    let at = |order: &str, seconds: i64| {
        let time = pillarbox::Timestamp::from_micros(now.as_micros() - seconds * 1_000_000);
        placing(order).available_at(time).build().unwrap()
    };
    stage.insert(vec![at("third", 10), at("first", 30), at("second", 20), at("fourth", 10)]).await;

    let _outbox = stage.outbox().on("OrderPlaced", seen.listener()).workers(1).start().unwrap();
    stage.quiet().await;

    assert_eq!(seen.ids(), ["first", "second", "third", "fourth"]);
}

/// P3, M3: a row that cannot be decoded is dead with its reason, logged, and disturbs no other.
#[tokio::test(start_paused = true)]
async fn undecodable_row_is_dead_and_the_rest_goes_on() {
    let (stage, seen, logs) = (Stage::set(), Notes::<Delivery>::new(), Logs::collect());
    stage.pending(&["order-1", "order-2", "order-3"]).await;
    assert!(stage.store.corrupt("order-2", "the headers are not JSON"));

    let _outbox = stage.outbox().on("OrderPlaced", seen.listener()).start().unwrap();
    stage.quiet().await;

    assert_eq!(seen.ids(), ["order-1", "order-3"]);
    let row = stage.row("order-2").await;
    assert_eq!((row.status, row.attempts), (Ok(Status::Dead), 0));
    assert_eq!(row.last_error.as_deref(), Some("the row cannot be decoded: the headers are not JSON"));
    let errors = logs.at(Level::ERROR).join("\n");
    assert!(errors.contains("order-2") && errors.contains("the headers are not JSON"), "{errors}");
}

/// P4: it never claims more than the cold queue can take, and nothing is lost.
#[tokio::test(start_paused = true)]
async fn full_cold_queue_is_never_exceeded() {
    let stage = Stage::set();
    let (listener, mut desk) = Desk::open();
    let names = orders(30);
    stage.pending(&names.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let outbox =
        stage.outbox().on("OrderPlaced", listener).workers(1).cold_queue(4).batch_size(4).start().unwrap();

    let first = desk.next().await;
    stage.pass(60 * SECOND / 3).await;
    let mut held = 0;
    for name in &names {
        held += usize::from(stage.row(name).await.locked_by.is_some());
    }
    assert!(held <= 5, "{held} events are claimed for one worker and four places");
    first.succeed();
    desk.accept_many(29).await;
    outbox.close().await;

    assert_eq!(outbox.counts().done, 30);
    assert_eq!(outbox.counts().released, 0);
}

/// P5: while there is a backlog the poller does not sleep, and its batch grows.
#[tokio::test(start_paused = true)]
async fn backlog_is_drained_without_sleeping_in_growing_batches() {
    let (stage, seen) = (Stage::set(), Notes::<Delivery>::new());
    let names = orders(5_000);
    stage.pending(&names.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let begun = stage.now();

    let outbox = stage.outbox().on("OrderPlaced", seen.listener()).start().unwrap();
    while outbox.counts().done < 5_000 {
        stage.pass(MILLISECOND).await;
    }

    assert!(stage.now() - begun < SECOND, "{:?}", stage.now() - begun);
    assert!(outbox.counts().takes < 50, "{:?}", outbox.counts());
    assert_eq!(seen.distinct().len(), 5_000);
    assert_eq!(seen.len(), 5_000);
}

/// P5: a commit whose events all went to the hot queue wakes no poller.
#[tokio::test(start_paused = true)]
async fn hot_commit_wakes_no_poller() {
    let (stage, seen) = (Stage::set(), Notes::<Delivery>::new());
    let outbox = stage.outbox().on("OrderPlaced", seen.listener()).poll_every(HOUR).start().unwrap();
    stage.quiet().await;
    let takes = outbox.counts().takes;

    for order in orders(10) {
        write(&outbox, placed(&order)).await;
    }
    stage.quiet().await;

    assert_eq!((seen.len(), outbox.counts().takes), (10, takes));
}

/// P5: a commit in this process wakes an outbox that only polls.
#[tokio::test(start_paused = true)]
async fn commit_wakes_a_poller_without_a_hot_path() {
    let (stage, seen) = (Stage::set(), Notes::<Delivery>::new());
    let outbox =
        stage.outbox().on("OrderPlaced", seen.listener()).poller_only().poll_every(HOUR).start().unwrap();
    stage.quiet().await;

    write(&outbox, placed("order-1")).await;
    stage.pass(MILLISECOND).await;

    assert_eq!(seen.ids(), ["order-1"]);
    assert_eq!(seen.all()[0].source(), Source::Cold);
}

/// P5: the poller sleeps until the next event is due, and no longer.
#[tokio::test(start_paused = true)]
async fn poller_sleeps_until_the_next_event_is_due() {
    let (stage, seen) = (Stage::set(), Notes::<Delivery>::new());
    stage.insert(vec![placing("order-1").deliver_after(90 * SECOND).build().unwrap()]).await;
    let outbox = stage.outbox().on("OrderPlaced", seen.listener()).poll_every(HOUR).start().unwrap();

    stage.pass(90 * SECOND - MILLISECOND).await;
    assert_eq!((seen.len(), outbox.counts().takes), (0, 1));
    stage.pass(5 * MILLISECOND).await;

    assert_eq!(seen.ids(), ["order-1"]);
}

/// P1, P5: a lease that nobody settled ends, and the event comes again.
#[tokio::test(start_paused = true)]
async fn event_of_a_dead_instance_comes_when_its_lease_ends() {
    let (stage, seen) = (Stage::set(), Notes::<Delivery>::new());
    stage.pending(&["order-1"]).await;
    take_and_die(&stage, "elsewhere", 300 * SECOND).await;
    let _outbox = stage.outbox().on("OrderPlaced", seen.listener()).poll_every(HOUR).start().unwrap();

    stage.pass(299 * SECOND).await;
    assert_eq!(seen.len(), 0);
    stage.pass(2 * SECOND).await;

    assert_eq!(seen.ids(), ["order-1"]);
}

/// P1: an instance that is started again under its name takes over its own leases at once.
#[tokio::test(start_paused = true)]
async fn restart_under_a_name_takes_over_at_once() {
    let (stage, seen) = (Stage::set(), Notes::<Delivery>::new());
    stage.pending(&["order-1"]).await;
    take_and_die(&stage, "relay-1", 300 * SECOND).await;

    let _outbox = stage.outbox().on("OrderPlaced", seen.listener()).name("relay-1").start().unwrap();
    stage.quiet().await;

    assert_eq!(seen.ids(), ["order-1"]);
}

/// M3, P5: a poll that fails is logged as ERROR and repeated, and nothing is lost.
#[tokio::test(start_paused = true)]
async fn failed_poll_is_logged_and_repeated() {
    let (stage, seen, logs) = (Stage::set(), Notes::<Delivery>::new(), Logs::collect());
    let (outbox, faults) = stage.faulty();
    faults.takes.next(3);
    stage.pending(&["order-1"]).await;

    let outbox = outbox.on("OrderPlaced", seen.listener()).poll_every(HOUR).start().unwrap();
    stage.pass(12 * SECOND).await;

    assert_eq!(seen.ids(), ["order-1"]);
    let errors = logs.at(Level::ERROR);
    assert_eq!(errors.len(), 3, "{errors:?}");
    assert!(errors[0].starts_with("the poller could not take events"), "{errors:?}");
    faults.takes.next(1);
    assert!(outbox.poll().await.is_err());
}

/// P1: cycles never overlap, those asked for by hand included.
#[tokio::test(start_paused = true)]
async fn cycles_never_overlap() {
    let (stage, seen) = (Stage::set(), Notes::<Delivery>::new());
    let names = orders(300);
    stage.pending(&names.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let (outbox, faults) = stage.faulty();
    let outbox = outbox.on("OrderPlaced", seen.listener()).start().unwrap();

    let polled = Notes::<bool>::new();
    for _ in 0..10 {
        let (outbox, polled) = (outbox.clone(), polled.clone());
        let poll = async move { polled.note(outbox.poll().await.is_ok()) };
        stage.runtime.spawner.spawn("poll", Box::pin(poll));
    }
    stage.pass(SECOND).await;

    assert_eq!((polled.all(), faults.taking.most()), (vec![true; 10], 1));
    assert!(outbox.counts().takes > 10, "{:?}", outbox.counts());
    assert_eq!((seen.len(), seen.distinct().len()), (300, 300));
}

/// P1: by default it takes 50 events for 5 minutes every 5 seconds, however recent they are.
#[tokio::test(start_paused = true)]
async fn defaults_are_those_that_are_documented() {
    let stage = Stage::set();
    let (outbox, faults) = stage.faulty();
    let outbox = outbox.start().unwrap();

    stage.quiet().await;
    let first = faults.taken.lock().unwrap()[0].clone();
    assert_eq!((first.limit, first.lease_for, first.skip_recent), (50, 300 * SECOND, Duration::ZERO));
    stage.pass(5 * SECOND - 200 * MILLISECOND).await;
    assert_eq!(outbox.counts().takes, 1);
    stage.pass(200 * MILLISECOND).await;

    assert_eq!(outbox.counts().takes, 2);
}

/// P1: every outbox generates an incarnation of its own, under the same name too.
#[tokio::test(start_paused = true)]
async fn incarnations_are_generated() {
    let stage = Stage::set();
    let owner = async |name: Option<&str>| {
        let (outbox, faults) = stage.faulty();
        let outbox = name.into_iter().fold(outbox, |outbox, name| outbox.name(name)).start().unwrap();
        outbox.poll().await.unwrap();
        outbox.close().await;
        faults.taken.lock().unwrap()[0].owner.clone()
    };

    let (one, other) = (owner(None).await, owner(None).await);
    let (before, after) = (owner(Some("relay-1")).await, owner(Some("relay-1")).await);

    assert_ne!(one.name(), other.name());
    assert_eq!((before.name(), after.name()), ("relay-1", "relay-1"));
    assert_ne!(before.to_string(), after.to_string());
}

/// Takes everything as an instance that dies at once.
async fn take_and_die(stage: &Stage, name: &str, lease_for: Duration) {
    let take = Take {
        owner: Owner::new(name, 1),
        token: Token(1),
        limit: 100,
        lease_for,
        skip_recent: Duration::ZERO,
        sweep: false,
    };
    let taken = stage.store.take(take).await.unwrap();
    assert!(
        taken
            .events
            .iter()
            .all(|taken| taken.event.as_ref().is_ok_and(|event: &Event| !event.id().is_empty()))
    );
}
