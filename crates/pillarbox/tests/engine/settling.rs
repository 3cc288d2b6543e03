//! Recording what became of events.

use std::sync::atomic::Ordering;

use pillarbox::store::Status;
use pillarbox::{Delivery, MemorySink};
use pillarbox_testkit::acceptance::Desk;
use tracing::Level;

use crate::logs::Logs;
use crate::stage::{HOUR, Notes, SECOND, Stage, orders, placed, write, write_all};

/// D12: under load outcomes are recorded in batches.
#[tokio::test(start_paused = true)]
async fn outcomes_are_recorded_in_batches() {
    let (stage, seen) = (Stage::set(), Notes::<Delivery>::new());
    let (outbox, faults) = stage.faulty();
    let outbox = outbox.on("OrderPlaced", seen.listener()).start().unwrap();

    write_all(&outbox, &orders(1_000)).await;
    stage.pass(SECOND).await;

    assert_eq!(outbox.counts().done, 1_000);
    assert!(outbox.counts().settle_batches <= 20, "{:?}", outbox.counts());
    assert_eq!(u64::from(faults.settled.load(Ordering::Relaxed)), outbox.counts().settle_batches);
}

/// D12: when nothing else waits, an outcome is recorded at once.
#[tokio::test(start_paused = true)]
async fn lone_outcome_is_recorded_at_once() {
    let (stage, seen) = (Stage::set(), Notes::<Delivery>::new());
    let outbox = stage.outbox().on("OrderPlaced", seen.listener()).start().unwrap();
    stage.quiet().await;

    write(&outbox, placed("order-1")).await;
    stage.pass(crate::stage::MILLISECOND).await;

    assert_eq!(stage.status("order-1").await, Status::Done);
}

/// D12: one row that the database refuses fails no other, and costs few statements more.
#[tokio::test(start_paused = true)]
async fn poisoned_row_fails_no_other() {
    let (stage, seen, logs) = (Stage::set(), Notes::<Delivery>::new(), Logs::collect());
    let (outbox, faults) = stage.faulty();
    faults.poisoned.store(37, Ordering::Relaxed);
    let outbox = outbox.on("OrderPlaced", seen.listener()).start().unwrap();

    write_all(&outbox, &orders(64)).await;
    stage.pass(SECOND).await;

    assert_eq!((seen.len(), outbox.counts().done), (64, 63));
    assert_eq!(stage.status("order-37").await, Status::New);
    assert!(faults.settled.load(Ordering::Relaxed) <= 20, "{faults:?}");
    let errors = logs.at(Level::ERROR);
    assert!(errors[0].starts_with("an outcome was not recorded"), "{errors:?}");
}

/// D12: a row that another transaction has locked holds up no other; its outcome is recorded when it is free.
#[tokio::test(start_paused = true)]
async fn locked_row_holds_up_no_other() {
    let (stage, seen, logs) = (Stage::set(), Notes::<Delivery>::new(), Logs::collect());
    let (outbox, faults) = stage.faulty();
    faults.locked.store(37, Ordering::Relaxed);
    let outbox = outbox.on("OrderPlaced", seen.listener()).start().unwrap();

    write_all(&outbox, &orders(64)).await;
    stage.pass(SECOND / 2).await;
    let done = outbox.counts().done;
    write(&outbox, placed("order-65")).await;
    stage.pass(SECOND / 4).await;
    let tries = faults.settled.load(Ordering::Relaxed);
    let done_meanwhile = outbox.counts().done;
    faults.locked.store(0, Ordering::Relaxed);
    stage.pass(SECOND).await;

    assert_eq!((done, done_meanwhile, outbox.counts().done), (63, 64, 65));
    assert_eq!((seen.len(), stage.status("order-37").await), (65, Status::Done));
    assert!(tries <= 20, "{faults:?}");
    assert_eq!(logs.at(Level::ERROR), [""; 0]);
    assert!(logs.at(Level::WARN)[0].starts_with("another transaction has locked rows"));
}

/// D12: a row that stays locked is tried again at leisure, and does not keep an outbox from closing.
#[tokio::test(start_paused = true)]
async fn locked_row_does_not_keep_an_outbox_from_closing() {
    let (stage, seen, logs) = (Stage::set(), Notes::<Delivery>::new(), Logs::collect());
    let (outbox, faults) = stage.faulty();
    faults.locked.store(1, Ordering::Relaxed);
    let outbox = outbox.on("OrderPlaced", seen.listener()).start().unwrap();
    write(&outbox, placed("order-1")).await;
    stage.pass(10 * SECOND).await;

    outbox.close().await;

    assert!(faults.settled.load(Ordering::Relaxed) <= 15, "{faults:?}");
    assert_eq!((seen.ids(), stage.status("order-1").await), (vec!["order-1".to_owned()], Status::New));
    assert!(logs.at(Level::ERROR)[0].starts_with("an outcome was not recorded; the event will come again"));
}

/// D8, D12: when an outbox is closed, a locked row costs no other its outcome.
#[tokio::test(start_paused = true)]
async fn closing_records_what_is_not_locked() {
    let stage = Stage::set();
    let (listener, mut desk) = Desk::open();
    let (outbox, faults) = stage.faulty();
    faults.locked.store(1, Ordering::Relaxed);
    let outbox = outbox.on("OrderPlaced", listener).drain_timeout(SECOND).start().unwrap();
    write_all(&outbox, &orders(2)).await;
    let (first, _cut_off) = (desk.next().await, desk.next().await);
    first.succeed();
    stage.pass(SECOND / 2).await;

    outbox.close().await;

    assert_eq!((stage.row("order-1").await.status, outbox.counts().done), (Ok(Status::New), 0));
    assert_eq!((stage.row("order-2").await.locked_by, outbox.counts().released), (None, 1));
}

/// D12: an outbox that is dropped tries once more to record what was locked.
#[tokio::test(start_paused = true)]
async fn dropped_outbox_tries_once_more_what_was_locked() {
    let (stage, seen) = (Stage::set(), Notes::<Delivery>::new());
    let (outbox, faults) = stage.faulty();
    faults.locked.store(1, Ordering::Relaxed);
    let outbox = outbox.on("OrderPlaced", seen.listener()).start().unwrap();
    write(&outbox, placed("order-1")).await;
    stage.pass(SECOND / 2).await;

    drop(outbox);
    faults.locked.store(0, Ordering::Relaxed);
    stage.pass(60 * SECOND).await;

    assert_eq!((seen.ids(), stage.status("order-1").await), (vec!["order-1".to_owned()], Status::Done));
}

/// D12: outcomes that wait for a lock are tried again in their time, though others join them.
#[tokio::test(start_paused = true)]
async fn newcomers_do_not_put_off_what_is_held() {
    let (stage, seen) = (Stage::set(), Notes::<Delivery>::new());
    let (outbox, faults) = stage.faulty();
    let outbox = outbox.on("OrderPlaced", seen.listener()).start().unwrap();
    for order in 1..=10 {
        faults.locked.store(order, Ordering::Relaxed);
        write(&outbox, placed(&format!("order-{order}"))).await;
        stage.pass(SECOND / 2).await;
    }

    assert!(outbox.counts().done >= 7, "{:?}", outbox.counts());
}

/// D11: a delivered event whose outcome could not be recorded is recorded again, not delivered again.
#[tokio::test(start_paused = true)]
async fn delivered_event_is_recorded_again_not_delivered_again() {
    let (stage, seen) = (Stage::set(), Notes::<Delivery>::new());
    let (outbox, faults) = stage.faulty();
    let outbox = outbox.on("OrderPlaced", seen.listener()).start().unwrap();
    faults.settles.next(5);

    write(&outbox, placed("order-1")).await;
    stage.pass(HOUR).await;

    assert_eq!(seen.ids(), ["order-1"]);
    let row = stage.row("order-1").await;
    assert_eq!((row.status, row.attempts), (Ok(Status::Done), 0));
}

/// D11: an outcome whose answer was lost counts once, however often it is repeated.
#[tokio::test(start_paused = true)]
async fn outcome_whose_answer_was_lost_counts_once() {
    let (stage, seen) = (Stage::set(), Notes::<Delivery>::new());
    let (outbox, faults) = stage.faulty();
    let fails_once = seen.answering(|delivery| match delivery.attempt() {
        1 => Err(pillarbox::ListenerError::new("try again")),
        _ => Ok(()),
    });
    let outbox = outbox.on("OrderPlaced", fails_once).start().unwrap();
    faults.settle_answers.next(3);

    write(&outbox, placed("order-1")).await;
    stage.pass(HOUR).await;

    assert_eq!(seen.len(), 2);
    let row = stage.row("order-1").await;
    assert_eq!((row.status, row.attempts), (Ok(Status::Done), 1));
    let counts = outbox.counts();
    assert_eq!((counts.done, counts.failed, counts.lost_leases), (1, 1, 0));
}

/// M1, M3: a dead event is logged and counted once, though nobody knows whether the first try recorded it.
#[tokio::test(start_paused = true)]
async fn dead_event_whose_answer_was_lost_is_logged_once() {
    let (stage, seen, logs) = (Stage::set(), Notes::<Delivery>::new(), Logs::collect());
    let (outbox, faults) = stage.faulty();
    let refuses = seen.answering(|_| Err(pillarbox::ListenerError::permanent("no such customer")));
    let outbox = outbox.on("OrderPlaced", refuses).start().unwrap();
    faults.settle_answers.next(2);

    write(&outbox, placed("order-1")).await;
    stage.pass(HOUR).await;

    assert_eq!((seen.len(), stage.status("order-1").await), (1, Status::Dead));
    let counts = outbox.counts();
    assert_eq!((counts.dead, counts.failed, counts.lost_leases), (1, 1, 0));
    let dead: Vec<_> =
        logs.at(Level::ERROR).into_iter().filter(|line| line.starts_with("event is dead")).collect();
    assert_eq!(dead.len(), 1, "{dead:?}");
    assert!(dead[0].contains("taken over") && dead[0].contains("no such customer"), "{dead:?}");
}

/// D11: while outcomes cannot be recorded nothing new is taken.
#[tokio::test(start_paused = true)]
async fn poller_waits_while_outcomes_cannot_be_recorded() {
    let (stage, sink) = (Stage::set(), MemorySink::new());
    let (outbox, faults) = stage.faulty();
    let outbox = outbox.on_sink(pillarbox::GLOBAL, "OrderPlaced", sink.clone()).start().unwrap();
    faults.settles.next(u32::MAX);
    write(&outbox, placed("order-1")).await;
    stage.quiet().await;
    let takes = outbox.counts().takes;
    stage.pending(&["order-2"]).await;

    stage.pass(60 * SECOND).await;
    assert_eq!((outbox.counts().takes, sink.published().len()), (takes, 1));
    faults.settles.next(0);
    stage.pass(60 * SECOND).await;

    assert_eq!((sink.published().len(), outbox.counts().done), (2, 2));
}

/// S9: done rows are deleted at once if asked.
#[tokio::test(start_paused = true)]
async fn done_rows_are_deleted_if_asked() {
    let (stage, seen) = (Stage::set(), Notes::<Delivery>::new());
    let outbox = stage.outbox().on("OrderPlaced", seen.listener()).delete_done().start().unwrap();

    write(&outbox, placed("order-1")).await;
    stage.quiet().await;

    assert_eq!((seen.len(), stage.has_row("order-1").await), (1, false));
}

/// S9: done rows are purged after their time; dead ones are kept.
#[tokio::test(start_paused = true)]
async fn done_rows_are_purged_after_their_time() {
    let (stage, seen) = (Stage::set(), Notes::<Delivery>::new());
    let outbox =
        stage.outbox().on("OrderPlaced", seen.listener()).keep_done_for(600 * SECOND).start().unwrap();
    write(&outbox, placed("order-1")).await;
    let dead = write(&outbox, pillarbox::Event::of_json("Unheard", "{}").unwrap()).await;

    stage.pass(590 * SECOND).await;
    assert!(stage.has_row("order-1").await);
    stage.pass(90 * SECOND).await;

    assert!(!stage.has_row("order-1").await);
    assert_eq!(stage.status(&dead).await, Status::Dead);
}
