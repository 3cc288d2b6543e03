//! Stopping is not a failure.

use std::future::Future;
use std::sync::atomic::Ordering;

use pillarbox::store::Status;
use pillarbox::{Delivery, GLOBAL, MemorySink};
use pillarbox_testkit::acceptance::Desk;
use tracing::Level;

use crate::logs::Logs;
use crate::stage::{HOUR, MILLISECOND, Notes, SECOND, Stage, orders, placed, write, write_all};

/// D8: what was not begun is given back at once and costs no attempt; what runs is waited for.
#[tokio::test(start_paused = true)]
async fn close_finishes_what_runs_and_releases_the_rest() {
    let stage = Stage::set();
    let (listener, mut desk) = Desk::open();
    let outbox = stage.outbox().on("OrderPlaced", listener).workers(1).start().unwrap();
    write_all(&outbox, &orders(5)).await;
    let running = desk.next().await;

    let closing = async {
        outbox.close().await;
        stage.now()
    };
    let answering = async {
        stage.pass(SECOND).await;
        for order in &orders(5)[1..] {
            let row = stage.row(order).await;
            assert_eq!((row.locked_by, row.attempts, row.starts), (None, 0, 0));
        }
        running.succeed();
        stage.now()
    };
    let (closed, answered) = tokio::join!(closing, answering);

    assert!(closed - answered < SECOND / 10, "{closed:?} {answered:?}");
    assert_eq!(stage.status("order-1").await, Status::Done);
    assert_eq!((outbox.counts().done, outbox.counts().released), (1, 4));
    assert!(desk.waiting().is_none());
}

/// D8: another instance waits for nothing after a close.
#[tokio::test(start_paused = true)]
async fn released_events_are_delivered_elsewhere_at_once() {
    let (stage, seen) = (Stage::set(), Notes::<Delivery>::new());
    let (listener, mut desk) = Desk::open();
    let outbox = stage.outbox().on("OrderPlaced", listener).workers(1).start().unwrap();
    write_all(&outbox, &orders(3)).await;
    let running = desk.next().await;
    running.succeed();
    let second = desk.next().await;
    drop(outbox.close());

    let (_, ()) = tokio::join!(outbox.close(), async { second.succeed() });
    let _other = stage.outbox().on("OrderPlaced", seen.listener()).start().unwrap();
    stage.quiet().await;

    assert_eq!(seen.ids(), ["order-3"]);
    assert_eq!(seen.all()[0].attempt(), 1);
}

/// D8: a listener that exceeds the drain timeout is cut off, and its event comes again, unspent.
#[tokio::test(start_paused = true)]
async fn drain_timeout_cuts_off_what_still_runs() {
    let (stage, seen) = (Stage::set(), Notes::<Delivery>::new());
    let (listener, mut desk) = Desk::open();
    let outbox = stage.outbox().on("OrderPlaced", listener).drain_timeout(3 * SECOND).start().unwrap();
    write(&outbox, placed("order-1")).await;
    let call = desk.next().await;

    let begun = stage.now();
    outbox.close().await;
    let took = stage.now() - begun;

    assert!((3 * SECOND..4 * SECOND).contains(&took), "{took:?}");
    assert!(call.is_cancelled());
    let row = stage.row("order-1").await;
    assert_eq!((row.status, row.attempts, row.locked_by), (Ok(Status::New), 0, None));
    let _other = stage.outbox().on("OrderPlaced", seen.listener()).start().unwrap();
    stage.quiet().await;
    assert_eq!(seen.ids(), ["order-1"]);
}

/// D8: a run that exceeds the drain timeout is cut off too.
#[tokio::test(start_paused = true)]
async fn drain_timeout_cuts_off_a_run() {
    let stage = Stage::set();
    let outbox = stage.outbox().on_sink(GLOBAL, "OrderPlaced", crate::sinks::Silent).start().unwrap();
    write_all(&outbox, &orders(3)).await;
    stage.quiet().await;

    let begun = stage.now();
    outbox.close().await;

    assert!(stage.now() - begun < 6 * SECOND);
    assert_eq!((outbox.counts().released, outbox.counts().failed), (3, 0));
}

/// D8: after a close writing goes on, nothing is claimed, and others deliver.
#[tokio::test(start_paused = true)]
async fn writing_goes_on_after_close() {
    let (stage, here, elsewhere) = (Stage::set(), Notes::<Delivery>::new(), Notes::<Delivery>::new());
    let outbox = stage.outbox().on("OrderPlaced", here.listener()).start().unwrap();
    let other = stage.outbox().on("OrderPlaced", elsewhere.listener()).start().unwrap();
    let mut open = outbox.begin().await.unwrap();
    outbox.write(&mut open, placed("order-1")).await.unwrap();

    outbox.close().await;
    open.commit().await.unwrap();
    write(&outbox, placed("order-2")).await;
    stage.pass(10 * SECOND).await;

    assert_eq!(here.len(), 0);
    assert_eq!(elsewhere.distinct().len(), 2);
    assert_eq!(other.counts().done, 2);
}

/// D8: closing twice, and closing an outbox that only writes, end at once.
#[tokio::test(start_paused = true)]
async fn closing_again_changes_nothing() {
    let (stage, sink) = (Stage::set(), MemorySink::new());
    let outbox = stage.outbox().on_sink(GLOBAL, "OrderPlaced", sink).start().unwrap();
    let writer = stage.outbox().writer_only().start().unwrap();
    let begun = stage.now();

    outbox.close().await;
    outbox.close().await;
    writer.close().await;

    assert!(stage.now() - begun < SECOND);
    assert!(outbox.poll().await.is_ok());
}

/// D8: closing while the database is away ends at once, and says what it could not record.
#[tokio::test(start_paused = true)]
async fn close_ends_without_a_database() {
    let (stage, seen, logs) = (Stage::set(), Notes::<Delivery>::new(), Logs::collect());
    let (outbox, faults) = stage.faulty();
    let outbox = outbox.on("OrderPlaced", seen.listener()).start().unwrap();
    faults.settles.next(u32::MAX);
    faults.takes.next(u32::MAX);
    write_all(&outbox, &orders(10)).await;
    stage.quiet().await;

    let begun = stage.now();
    outbox.close().await;

    assert!(stage.now() - begun < SECOND, "{:?}", stage.now() - begun);
    let errors = logs.at(Level::ERROR);
    let abandoned = errors.iter().filter(|line| line.starts_with("an outcome was not recorded"));
    assert_eq!((seen.len(), abandoned.count()), (10, 10), "{errors:?}");
    assert_eq!(stage.status("order-1").await, Status::New);
}

/// D8, O4: with a database that never answers, closing takes the shutdown timeout, of which the drain timeout is a part.
#[tokio::test(start_paused = true)]
async fn close_ends_though_the_database_never_answers() {
    let (stage, logs) = (Stage::set(), Logs::collect());
    let (listener, mut desk) = Desk::open();
    let (outbox, faults) = stage.faulty();
    let outbox = outbox.drain_timeout(7 * SECOND).shutdown_timeout(14 * SECOND);
    let outbox = outbox.on("OrderPlaced", listener).workers(1).start().unwrap();
    write_all(&outbox, &orders(3)).await;
    let call = desk.next().await;
    faults.settles_hang.store(true, Ordering::Relaxed);

    let begun = stage.now();
    let cut_off = async {
        stage.pass(7 * SECOND - MILLISECOND).await;
        assert!(!call.is_cancelled(), "what runs has the whole drain timeout");
    };
    tokio::join!(outbox.close(), cut_off);
    let took = stage.now() - begun;

    assert!((14 * SECOND..15 * SECOND).contains(&took), "{took:?}");
    assert!(call.is_cancelled());
    let errors = logs.at(Level::ERROR);
    assert_eq!(errors, ["closing took too long; leases that are left will end by themselves"]);
}

/// O4: an owner that hangs, on a database that does not answer, is closed after 15 s in all; listeners have 5 s of them.
#[tokio::test(start_paused = true)]
async fn graceful_shutdown_contains_the_drain() {
    let (stage, logs) = (Stage::set(), Logs::collect());
    let (listener, mut desk) = Desk::open();
    let (outbox, faults) = stage.faulty();
    let outbox = outbox.ordered().on("OrderPlaced", listener).start().unwrap();
    stage.pass(SECOND).await;
    write(&outbox, placed("order-1")).await;
    let call = desk.next().await;
    faults.settles_hang.store(true, Ordering::Relaxed);

    let begun = stage.now();
    let cut_off = async {
        stage.pass(5 * SECOND - MILLISECOND).await;
        assert!(!call.is_cancelled());
        stage.pass(2 * MILLISECOND).await;
        assert!(call.is_cancelled());
    };
    tokio::join!(outbox.close(), cut_off);
    let took = stage.now() - begun;

    assert!((15 * SECOND..16 * SECOND).contains(&took), "{took:?}");
    let errors = logs.at(Level::ERROR);
    assert_eq!(errors, ["closing took too long; leases that are left will end by themselves"]);
}

/// D8, W8: dropping the last clone stops the outbox, and what was not begun is given back.
#[tokio::test(start_paused = true)]
async fn dropping_the_last_clone_stops() {
    let (stage, elsewhere) = (Stage::set(), Notes::<Delivery>::new());
    let (listener, mut desk) = Desk::open();
    let outbox = stage.outbox().on("OrderPlaced", listener).workers(1).start().unwrap();
    let clone = outbox.clone();
    write_all(&outbox, &orders(3)).await;
    let running = desk.next().await;

    drop(outbox);
    stage.quiet().await;
    assert!(!running.is_cancelled(), "a clone is left");
    drop(clone);
    stage.quiet().await;
    let _other = stage.outbox().on("OrderPlaced", elsewhere.listener()).start().unwrap();
    stage.quiet().await;
    assert_eq!(elsewhere.ids(), ["order-2", "order-3"]);
    running.succeed();
    stage.pass(HOUR).await;

    assert_eq!(stage.status("order-1").await, Status::Done);
    assert_eq!(elsewhere.len(), 2);
}

/// D8: `run` closes when its argument completes.
#[tokio::test(start_paused = true)]
async fn run_ends_with_its_argument() {
    let (stage, seen) = (Stage::set(), Notes::<Delivery>::new());
    let outbox = stage.outbox().on("OrderPlaced", seen.listener()).start().unwrap();

    outbox.run(stage.pass(60 * SECOND)).await.unwrap();
    write(&outbox, placed("order-1")).await;
    stage.pass(60 * SECOND).await;

    assert_eq!((seen.len(), stage.now() >= 120 * SECOND), (0, true));
}

/// D8: a hook that hangs after a delivery does not keep its outcome from being recorded.
#[tokio::test(start_paused = true)]
async fn hanging_hook_does_not_hide_a_delivery() {
    let (stage, seen) = (Stage::set(), Notes::<Delivery>::new());
    let hanging = pillarbox::after(|_: Delivery, _: Option<String>| std::future::pending());
    let outbox = stage.outbox().interceptor(hanging).on("OrderPlaced", seen.listener()).start().unwrap();
    write(&outbox, placed("order-1")).await;
    stage.quiet().await;
    assert_eq!(seen.ids(), ["order-1"]);

    outbox.close().await;

    assert_eq!(stage.status("order-1").await, Status::Done);
}

/// D8: a close that nobody waits for gives back all the same what was not begun.
#[tokio::test(start_paused = true)]
async fn dropped_close_gives_everything_back() {
    let (stage, (listener, mut desk)) = (Stage::set(), Desk::open());
    let outbox = stage.outbox().on("OrderPlaced", listener).workers(1).start().unwrap();
    write_all(&outbox, &orders(100)).await;
    let running = desk.next().await;

    let mut closing = Box::pin(outbox.close());
    let begun =
        std::future::poll_fn(|context| std::task::Poll::Ready(closing.as_mut().poll(context).is_ready()));
    assert!(!begun.await);
    drop(closing);
    stage.quiet().await;
    running.succeed();
    stage.quiet().await;

    assert_eq!((outbox.counts().done, outbox.counts().released), (1, 99));
}
