//! Other processes are told of what they may take, and of nothing else.

use std::sync::Arc;

use pillarbox::{PartitionSet, Receipt, partition_of};
use pillarbox_testkit::acceptance::Desk;

use crate::faults::Faults;
use crate::stage::{HOUR, SECOND, Stage, orders, placed, placing, write, write_all};

/// How many announcements there were.
fn announced(faults: &Arc<Faults>) -> usize {
    faults.announced.lock().unwrap().len()
}

/// The partitions of the orders, each of which is a key.
fn partitions_of(orders: &[&str]) -> PartitionSet {
    orders.iter().map(|order| partition_of(order)).collect()
}

/// Lets other tasks run as far as they come.
async fn without_time_passing() {
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
}

/// P5: a commit that leaves something to take is announced, once, whatever it wrote; a rollback is not.
#[tokio::test(start_paused = true)]
async fn commit_is_announced_once() {
    let stage = Stage::set();
    let (builder, faults) = stage.faulty();
    let writer = builder.writer_only().start().unwrap();

    write_all(&writer, &orders(3)).await;
    let mut tx = writer.begin().await.unwrap();
    writer.write(&mut tx, placed("order-4")).await.unwrap();
    tx.rollback().await.unwrap();
    stage.quiet().await;

    assert_eq!(announced(&faults), 1);
}

/// P5: what is committed while an announcement is under way is announced by exactly one more.
#[tokio::test(start_paused = true)]
async fn commits_during_an_announcement_are_announced_by_one_more() {
    let stage = Stage::set();
    let (builder, faults) = stage.faulty();
    *faults.announcing_takes.lock().unwrap() = SECOND;
    let writer = builder.writer_only().start().unwrap();

    for order in orders(5) {
        write(&writer, placed(&order)).await;
        without_time_passing().await;
    }
    stage.quiet().await;
    let meanwhile = announced(&faults);
    stage.pass(HOUR).await;

    assert_eq!((meanwhile, announced(&faults)), (1, 2));
}

/// P5: who commits one transaction after the other announces the first at once, and what follows at most every
/// millisecond.
#[tokio::test(start_paused = true)]
async fn commits_in_a_row_are_announced_together() {
    let stage = Stage::set();
    let (builder, faults) = stage.faulty();
    let writer = builder.writer_only().start().unwrap();

    write(&writer, placed("order-1")).await;
    without_time_passing().await;
    let at_once = announced(&faults);
    for order in ["order-2", "order-3", "order-4"] {
        write(&writer, placed(order)).await;
        without_time_passing().await;
    }
    let within = announced(&faults);
    stage.quiet().await;

    assert_eq!((at_once, within, announced(&faults)), (1, 1, 2));
}

/// P5: an announcement names the partitions of all commits since the one before, and no others.
#[tokio::test(start_paused = true)]
async fn announcement_names_the_partitions_of_its_commits() {
    let stage = Stage::set();
    let (builder, faults) = stage.faulty();
    *faults.announcing_takes.lock().unwrap() = SECOND;
    let writer = builder.writer_only().start().unwrap();

    for order in ["order-1", "order-2", "order-3"] {
        write(&writer, placed(order)).await;
        without_time_passing().await;
    }
    stage.pass(HOUR).await;

    let expected = [partitions_of(&["order-1"]), partitions_of(&["order-2", "order-3"])];
    assert_eq!(*faults.announced.lock().unwrap(), expected);
}

/// P5: events that all entered the hot queue are nobody else's; a delayed one is anybody's.
#[tokio::test(start_paused = true)]
async fn hot_events_are_announced_to_nobody() {
    let stage = Stage::set();
    let (listener, mut desk) = Desk::open();
    let (builder, faults) = stage.faulty();
    let outbox = builder.on("OrderPlaced", listener).start().unwrap();

    write(&outbox, placed("order-1")).await;
    desk.accept().await;
    stage.quiet().await;
    assert_eq!(announced(&faults), 0);
    write(&outbox, placing("order-2").deliver_after(SECOND)).await;
    stage.quiet().await;

    assert_eq!(announced(&faults), 1);
}

/// P5, W7: what finds the hot queue full is announced when it has been given back.
#[tokio::test(start_paused = true)]
async fn overflow_is_announced_when_it_can_be_taken() {
    let stage = Stage::set();
    let (listener, mut desk) = Desk::open();
    let (builder, faults) = stage.faulty();
    let outbox = builder.on("OrderPlaced", listener).workers(1).hot_queue(1).start().unwrap();

    write_all(&outbox, &orders(3)).await;
    let first = desk.next().await;
    stage.quiet().await;

    assert_eq!(announced(&faults), 1);
    first.succeed();
    desk.accept_many(2).await;
}

/// P5, W12: a receipt that is handed back after the commit is announced; a commit that nobody tells of cannot be.
#[tokio::test(start_paused = true)]
async fn receipt_is_announced() {
    let stage = Stage::set();
    let (builder, faults) = stage.faulty();
    let writer = builder.writer_only().start().unwrap();
    let mut tx = stage.store.open();
    let receipt = writer.write_in(&mut tx, [placed("order-1")]).await.unwrap();
    tx.commit().unwrap();
    stage.quiet().await;
    assert_eq!(announced(&faults), 0);

    writer.committed(receipt);
    stage.quiet().await;
    assert_eq!(*faults.announced.lock().unwrap(), [partitions_of(&["order-1"])]);
    writer.committed(Receipt::of(["order-2"]));
    stage.quiet().await;

    assert_eq!(faults.announced.lock().unwrap()[1..], [PartitionSet::ALL], "nobody knows where it is");
}

/// P5, D8: an outbox that is closed still writes, and still tells others.
#[tokio::test(start_paused = true)]
async fn commit_after_close_is_announced() {
    let stage = Stage::set();
    let (builder, faults) = stage.faulty();
    let outbox = builder.start().unwrap();
    outbox.close().await;

    write(&outbox, placed("order-1")).await;
    stage.quiet().await;

    assert_eq!(announced(&faults), 1);
}

/// P5, D8: what a closing outbox gives back is announced, so that the next owner waits for nothing.
#[tokio::test(start_paused = true)]
async fn events_that_were_given_back_are_announced() {
    let stage = Stage::set();
    let (listener, mut desk) = Desk::open();
    let (builder, faults) = stage.faulty();
    stage.pending(&["order-1", "order-2", "order-3"]).await;
    let outbox = builder.on("OrderPlaced", listener).workers(1).poller_only().start().unwrap();
    let call = desk.next().await;
    assert_eq!(announced(&faults), 0);

    let (_, ()) = tokio::join!(async { call.succeed() }, outbox.close());

    assert_eq!((outbox.counts().released, announced(&faults)), (2, 1));
}

/// P5: a store that panics over one announcement is asked for the next.
#[tokio::test(start_paused = true)]
async fn panic_does_not_silence_later_announcements() {
    let stage = Stage::set();
    let (builder, faults) = stage.faulty();
    faults.announcements.next(1);
    let writer = builder.writer_only().start().unwrap();

    write(&writer, placed("order-1")).await;
    stage.quiet().await;
    write(&writer, placed("order-2")).await;
    stage.quiet().await;

    assert_eq!(announced(&faults), 2);
}
