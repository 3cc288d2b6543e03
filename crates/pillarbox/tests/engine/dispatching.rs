//! What a worker does with an event, and how many run at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use pillarbox::store::{EventStore, Owner, Status};
use pillarbox::{Delivery, Event, ListenerError, Source, Unroutable};
use pillarbox_testkit::acceptance::Desk;
use tracing::Level;

use crate::logs::Logs;
use crate::stage::{HOUR, Notes, SECOND, Stage, orders, placed, write, write_all};

/// D4: while both queues have work, two hot events go out for every cold one.
#[tokio::test(start_paused = true)]
async fn hot_and_cold_are_drained_two_to_one() {
    let (stage, names) = (Stage::set(), orders(21));
    let (listener, mut desk) = Desk::open();
    let outbox = stage.outbox().on("OrderPlaced", listener).workers(1).start().unwrap();
    write(&outbox, placed("first")).await;
    let first = desk.next().await;
    let cold: Vec<&str> = names[..7].iter().map(String::as_str).collect();
    stage.pending(&cold).await;
    outbox.poll().await.unwrap();
    write_all(&outbox, &names[7..]).await;
    stage.quiet().await;

    first.succeed();
    let sources: Vec<Source> = desk.accept_many(21).await.iter().map(|delivery| delivery.source()).collect();

    for window in sources.chunks(3) {
        let hot = window.iter().filter(|source| **source == Source::Hot).count();
        assert_eq!(hot, 2, "{sources:?}");
    }
}

/// D4: neither queue waits while the other is empty.
#[tokio::test(start_paused = true)]
async fn lone_queue_is_drained_without_waiting() {
    let (stage, seen) = (Stage::set(), Notes::<Delivery>::new());
    let names = orders(200);
    stage.pending(&names[..100].iter().map(String::as_str).collect::<Vec<_>>()).await;
    let begun = stage.now();

    let outbox = stage.outbox().on("OrderPlaced", seen.listener()).start().unwrap();
    outbox.poll().await.unwrap();
    while seen.len() < 100 {
        stage.pass(crate::stage::MILLISECOND).await;
    }
    write_all(&outbox, &names[100..]).await;
    while seen.len() < 200 {
        stage.pass(crate::stage::MILLISECOND).await;
    }

    assert!(stage.now() - begun < SECOND / 10, "{:?}", stage.now() - begun);
}

/// D7: the number of workers bounds what runs at once.
#[tokio::test(start_paused = true)]
async fn workers_bound_what_runs_at_once() {
    let stage = Stage::set();
    let (running, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (now, peak, clock) = (running.clone(), most.clone(), stage.runtime.clock.clone());
    let listener = move |_: Delivery| {
        let (now, peak, wait) = (now.clone(), peak.clone(), clock.sleep(SECOND));
        async move {
            peak.fetch_max(now.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
            wait.await;
            now.fetch_sub(1, Ordering::Relaxed);
            Ok::<(), ListenerError>(())
        }
    };
    let outbox = stage.outbox().on("OrderPlaced", listener).workers(3).start().unwrap();

    write_all(&outbox, &orders(12)).await;
    stage.pass(4 * SECOND + SECOND / 2).await;

    assert_eq!(most.load(Ordering::Relaxed), 3);
    assert_eq!(outbox.counts().done, 12);
}

/// D5, M3: an event without a listener is dead at once, with no attempt spent, and logged.
#[tokio::test(start_paused = true)]
async fn event_without_a_listener_is_dead_at_once() {
    let (stage, logs) = (Stage::set(), Logs::collect());
    let outbox = stage.outbox().start().unwrap();

    write(&outbox, placed("order-1")).await;
    stage.quiet().await;

    let row = stage.row("order-1").await;
    assert_eq!((row.status, row.attempts), (Ok(Status::Dead), 0));
    assert!(row.last_error.unwrap().starts_with("unroutable: no listener is registered"));
    let errors = logs.at(Level::ERROR);
    assert!(errors[0].starts_with("event is dead event_id=order-1 error=unroutable"), "{errors:?}");
}

/// D5: an event that is held is visible, spends nothing, and is looked at again every minute.
#[tokio::test(start_paused = true)]
async fn held_event_is_looked_at_again_every_minute() {
    let (stage, seen) = (Stage::set(), Notes::<Delivery>::new());
    let old = stage.outbox().unroutable(Unroutable::Hold).start().unwrap();

    write(&old, placed("order-1")).await;
    stage.pass(150 * SECOND).await;
    let row = stage.row("order-1").await;
    assert_eq!((row.status, row.attempts), (Ok(Status::Retry), 0));
    assert!(row.reason.unwrap().starts_with("hold: unroutable"));
    assert_eq!(old.counts().cold_enqueued, 2);
    old.close().await;
    let _new = stage.outbox().on("OrderPlaced", seen.listener()).start().unwrap();
    stage.pass(60 * SECOND).await;

    assert_eq!(seen.all()[0].attempt(), 1);
    let row = stage.row("order-1").await;
    assert_eq!((row.status, row.attempts), (Ok(Status::Done), 0));
}

/// D10: a listener that panics, in its future or before it, counts as failed, and its worker goes on.
#[tokio::test(start_paused = true)]
async fn panicking_listener_counts_as_failed() {
    let (stage, seen) = (Stage::set(), Notes::<Delivery>::new());
    let outbox = stage
        .outbox()
        .workers(1)
        .on("OrderPlaced", seen.listener())
        .on("PanicsLater", |_: Delivery| async { panic_over::<Result<(), ListenerError>>("the order") })
        .on("PanicsAtOnce", |_: Delivery| panic_over::<std::future::Ready<Result<(), ListenerError>>>("it"))
        .start()
        .unwrap();

    let later = write(&outbox, Event::of_json("PanicsLater", "{}").unwrap()).await;
    let at_once = write(&outbox, Event::of_json("PanicsAtOnce", "{}").unwrap()).await;
    stage.quiet().await;
    for (id, text) in [(&later, "panicked over the order"), (&at_once, "panicked over it")] {
        let row = stage.row(id).await;
        assert_eq!((row.status, row.attempts), (Ok(Status::Retry), 1));
        assert_eq!(row.last_error.unwrap(), format!("the listener panicked: {text}"));
    }
    write(&outbox, placed("order-1")).await;
    stage.quiet().await;

    assert_eq!(seen.ids(), ["order-1"]);
}

fn panic_over<T>(what: &str) -> T {
    panic!("panicked over {what}")
}

/// D10: a listener that exceeds its time limit is cancelled, and counts as failed.
#[tokio::test(start_paused = true)]
async fn slow_listener_is_cancelled_at_its_limit() {
    let stage = Stage::set();
    let (listener, mut desk) = Desk::open();
    let outbox = stage.outbox().on("OrderPlaced", listener).delivery_timeout(7 * SECOND).start().unwrap();

    write(&outbox, placed("order-1")).await;
    let call = desk.next().await;
    stage.pass(7 * SECOND - SECOND / 10).await;
    assert!(!call.is_cancelled());
    stage.pass(SECOND / 5).await;

    assert!(call.is_cancelled());
    let row = stage.row("order-1").await;
    assert_eq!((row.status, row.attempts), (Ok(Status::Retry), 1));
    assert_eq!(row.last_error.as_deref(), Some("the listener did not answer within 7s"));
}

/// D9: an event that is taken again while it waits or runs here is not delivered twice, and is settled.
#[tokio::test(start_paused = true)]
async fn event_in_flight_is_not_queued_twice() {
    let stage = Stage::set();
    let (listener, mut desk) = Desk::open();
    stage.pending(&["order-1", "order-2"]).await;
    let outbox = stage.outbox().on("OrderPlaced", listener).name("relay-1").workers(1).start().unwrap();
    let call = desk.next().await;

    let ended = stage.store.resume(&Owner::new("relay-1", 0)).await.unwrap();
    outbox.poll().await.unwrap();
    call.succeed();
    let second = desk.accept().await;
    stage.pass(HOUR).await;

    assert_eq!((ended, second.id()), (2, "order-2"));
    assert!(desk.waiting().is_none());
    assert_eq!((outbox.counts().done, outbox.counts().lost_leases), (2, 0));
    assert_eq!(stage.status("order-1").await, Status::Done);
}

/// D9: after its time in flight has run out, an event that is taken again is delivered again.
#[tokio::test(start_paused = true)]
async fn event_in_flight_is_forgotten_after_its_time() {
    let stage = Stage::set();
    let (listener, mut desk) = Desk::open();
    stage.pending(&["order-1"]).await;
    let builder = stage.outbox().on("OrderPlaced", listener).name("relay-1");
    let outbox = builder.in_flight_ttl(10 * SECOND).start().unwrap();
    let first = desk.next().await;

    stage.pass(11 * SECOND).await;
    stage.store.resume(&Owner::new("relay-1", 0)).await.unwrap();
    outbox.poll().await.unwrap();
    let second = desk.accept().await;

    assert_eq!((second.id(), first.is_cancelled()), ("order-1", false));
    first.succeed();
}

/// D2, D9: an event that is offered to the hot queue by hand must exist, and is delivered once.
#[tokio::test(start_paused = true)]
async fn event_offered_by_hand_is_delivered_once() {
    let (stage, seen) = (Stage::set(), Notes::<Delivery>::new());
    let outbox = stage.outbox().on("OrderPlaced", seen.listener()).start().unwrap();

    let mut tx = outbox.begin().await.unwrap();
    outbox.write(&mut tx, placed("order-1")).await.unwrap();
    tx.commit().await.unwrap();
    assert!(outbox.enqueue_hot(placed("order-1")));
    assert!(outbox.enqueue_hot(placed("order-2")));
    stage.pass(HOUR).await;

    assert_eq!(seen.ids(), ["order-1"]);
    assert!(outbox.has_cold_capacity());
    outbox.close().await;
    assert!(!outbox.enqueue_hot(placed("order-3")) && !outbox.has_cold_capacity());
}

/// D3: an event over which the process died twice runs while nothing else runs.
#[tokio::test(start_paused = true)]
async fn suspect_runs_alone() {
    let stage = Stage::set();
    let (listener, mut desk) = Desk::open();
    stage.pending(&["suspect"]).await;
    stage.die_over_all().await;
    stage.die_over_all().await;
    stage.pending(&["order-1", "order-2"]).await;
    let outbox = stage.outbox().on("OrderPlaced", listener).start().unwrap();

    let mut alone = Vec::new();
    while outbox.counts().done < 3 {
        stage.quiet().await;
        let mut together = Vec::new();
        while let Some(call) = desk.waiting() {
            together.push(call);
        }
        let ids: Vec<_> = together.iter().map(|call| call.delivery.id().to_owned()).collect();
        alone.push(ids);
        together.into_iter().for_each(pillarbox_testkit::acceptance::Call::succeed);
        stage.quiet().await;
    }

    let with_suspect: Vec<_> = alone.iter().filter(|ids| ids.contains(&"suspect".to_owned())).collect();
    assert_eq!(with_suspect, [&["suspect".to_owned()]], "{alone:?}");
}

/// D3: an event over which the process died five times is dead, with no attempt spent.
#[tokio::test(start_paused = true)]
async fn event_that_killed_the_process_too_often_is_dead() {
    let (stage, seen) = (Stage::set(), Notes::<Delivery>::new());
    stage.pending(&["order-1"]).await;
    for _ in 0..5 {
        stage.die_over_all().await;
    }
    stage.pending(&["order-2"]).await;

    let _outbox = stage.outbox().on("OrderPlaced", seen.listener()).start().unwrap();
    stage.quiet().await;

    let row = stage.row("order-1").await;
    assert_eq!((row.status, row.attempts), (Ok(Status::Dead), 0));
    assert_eq!(row.last_error.as_deref(), Some("the process died 5 times while it delivered this event"));
    assert_eq!(seen.ids(), ["order-2"]);
}

/// D3: a suspect that loses its lease while it waits for a worker does not stop the poller.
#[tokio::test(start_paused = true)]
async fn suspect_that_lost_its_lease_comes_again() {
    let stage = Stage::set();
    let (listener, mut desk) = Desk::open();
    let (outbox, faults) = stage.faulty();
    let outbox = outbox.on("OrderPlaced", listener).workers(1).lease_for(36 * SECOND).start().unwrap();
    write_all(&outbox, &["order-1".to_owned(), "order-2".to_owned()]).await;
    let first = desk.next().await;
    stage.pending(&["suspect"]).await;
    stage.die_over_all().await;
    stage.die_over_all().await;
    outbox.poll().await.unwrap();

    stage.pass(25 * SECOND).await;
    faults.renewals.next(1);
    first.succeed();
    let rest = async { desk.accept_many(2).await };
    let mut rest: Vec<String> = tokio::select! {
        biased;
        rest = rest => rest.iter().map(|delivery| delivery.id().to_owned()).collect(),
        () = stage.pass(HOUR) => panic!("the poller stopped"),
    };

    rest.sort();
    assert_eq!(rest, ["order-2", "suspect"]);
}

/// An error that fails, or panics, when somebody wants to read it.
#[derive(Debug)]
struct Unreadable {
    panics: bool,
}

impl std::fmt::Display for Unreadable {
    fn fmt(&self, _: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        assert!(!self.panics, "unreadable");
        Err(std::fmt::Error)
    }
}

impl std::error::Error for Unreadable {}

/// D9, T2: an error that cannot be shown is a failed attempt like any other, and its worker goes on.
#[tokio::test(start_paused = true)]
async fn error_without_a_text_costs_an_attempt_and_no_worker() {
    for panics in [false, true] {
        let (stage, seen) = (Stage::set(), Notes::<Delivery>::new());
        let listener = seen.answering(move |delivery| match delivery.id() {
            "order-1" => Err(ListenerError::new(Unreadable { panics })),
            _ => Ok(()),
        });
        let outbox = stage.outbox().workers(1).on("OrderPlaced", listener).start().unwrap();

        write_all(&outbox, &orders(2)).await;
        stage.quiet().await;

        assert_eq!(stage.status("order-2").await, Status::Done);
        let row = stage.row("order-1").await;
        assert_eq!(row.attempts, 1);
        assert!(row.last_error.unwrap().contains("cannot be shown"));
    }
}

/// Panics when it is dropped before its end.
struct Fragile;

impl Drop for Fragile {
    fn drop(&mut self) {
        assert!(std::thread::panicking(), "dropped");
    }
}

/// D9: a listener that panics over being cancelled has failed, and its worker goes on.
#[tokio::test(start_paused = true)]
async fn listener_that_panics_when_it_is_cancelled_costs_no_worker() {
    let stage = Stage::set();
    let listener = |delivery: Delivery| async move {
        if delivery.id() == "order-1" {
            let fragile = Fragile;
            std::future::pending::<()>().await;
            std::mem::forget(fragile);
        }
        Ok::<_, ListenerError>(())
    };
    let outbox = stage.outbox().workers(1).on("OrderPlaced", listener).start().unwrap();

    write_all(&outbox, &orders(2)).await;
    stage.pass(31 * SECOND).await;

    assert_eq!(stage.status("order-2").await, Status::Done);
    assert_eq!(stage.row("order-1").await.attempts, 1);
}
