//! Owned partitions while the database fails over to a replica that lags behind.

use std::sync::Arc;
use std::time::Duration;

use pillarbox::store::{Instance, Mode, Owner, Ownership, Status};
use pillarbox::{Delivery, ListenerError, Outbox, PARTITIONS};
use pillarbox_testkit::acceptance::Desk;

use crate::faults::{Faults, FaultyStore};
use crate::stage::{HOUR, MILLISECOND, Notes, SECOND, Stage, placed, placing, write};

/// An instance that keeps order, on a store that fails as its faults say.
fn start(stage: &Stage, seen: &Notes<Delivery>) -> (Outbox<FaultyStore>, Arc<Faults>) {
    let (builder, faults) = stage.faulty();
    (builder.ordered().on("OrderPlaced", seen.listener()).start().unwrap(), faults)
}

/// Three orders are delivered, and a failover takes them back; their numbers are given to others.
async fn fail_over_after_three<const N: usize>(
    stage: &Stage,
    outbox: &Outbox<FaultyStore>,
    seen: &Notes<Delivery>,
    others: [&str; N],
) {
    let replica = stage.store.replica();
    for order in 1..=3 {
        write(outbox, placed(&format!("order-{order}"))).await;
    }
    stage.pass(10 * SECOND).await;
    assert_eq!(seen.len(), 3);
    stage.store.fail_over(replica);
    stage.pending(&others).await;
}

/// O5, S10: who meets a failover as it gives its partitions back stores no floors from before it: numbers are given
/// again below them.
#[tokio::test(start_paused = true)]
async fn failed_return_stores_no_floor() {
    next_owner_finds_nothing_below_floors(Duration::ZERO).await;
}

/// O5, S10: nor does who has met it by a heartbeat and gives them back before the next.
#[tokio::test(start_paused = true)]
async fn return_after_a_failed_heartbeat_stores_no_floor() {
    // A heartbeat every five seconds, and the next a moment after one that failed.
    next_owner_finds_nothing_below_floors(4 * SECOND + 100 * MILLISECOND).await;
}

/// An instance is closed so long after a failover, and the next one delivers what got the numbers of before, in time.
async fn next_owner_finds_nothing_below_floors(closed_after: Duration) {
    let (stage, seen) = (Stage::set(), Notes::<Delivery>::new());
    let (outbox, faults) = start(&stage, &seen);
    stage.pass(SECOND).await;
    let others = ["order-4", "order-5", "order-6", "order-7", "order-8"];

    fail_over_after_three(&stage, &outbox, &seen, others).await;
    faults.members.next(1);
    stage.pass(closed_after).await;
    outbox.close().await;
    let (other, _) = start(&stage, &seen);
    stage.pass(60 * SECOND).await;

    assert_eq!((seen.len(), seen.distinct().len()), (8, 8), "{:?}", seen.ids());
    assert_eq!(other.counts().below_floor, 0);
}

/// No loss: what lies below a floor is found in every partition, though there is room for a few of them only.
#[tokio::test(start_paused = true)]
async fn small_queue_looks_below_all_floors() {
    let (stage, seen) = (Stage::set(), Notes::<Delivery>::new());
    let (builder, _faults) = stage.faulty();
    let outbox = builder.cold_queue(2).ordered().on("OrderPlaced", seen.listener()).start().unwrap();
    stage.pass(SECOND).await;
    stage.pending(&["order-1", "order-2", "order-3", "order-4", "order-5"]).await;
    let replica = stage.store.replica();
    stage.pass(60 * SECOND).await;
    assert_eq!(seen.len(), 5);

    stage.store.restore_events(replica);
    stage.pass(HOUR).await;

    assert_eq!((seen.len(), seen.distinct().len()), (10, 5));
    assert_eq!(outbox.counts().below_floor, 5);
}

/// O5, S10: a heartbeat that follows an outage at once, before the reader has heard of its end, stores no floor either.
#[tokio::test(start_paused = true)]
async fn heartbeat_ahead_of_the_reader_stores_no_floor() {
    let (stage, seen) = (Stage::set(), Notes::<Delivery>::new());
    let (outbox, faults) = start(&stage, &seen);
    stage.pass(SECOND).await;
    fail_over_after_three(&stage, &outbox, &seen, ["order-4", "order-5", "order-6"]).await;
    faults.members.next(1);
    faults.reads.next(u32::MAX);

    // So late that the next is due when it is answered.
    *faults.members_take.lock().unwrap() = 6 * SECOND;
    stage.pass(15 * SECOND).await;
    *faults.members_take.lock().unwrap() = Duration::ZERO;
    stage.pass(5 * SECOND).await;
    faults.members.next(u32::MAX);
    let (other, _) = start(&stage, &seen);
    stage.pass(120 * SECOND).await;

    assert_eq!((seen.len(), seen.distinct().len()), (6, 6), "{:?}", seen.ids());
    assert_eq!(other.counts().below_floor, 0);
}

/// O5, S10: nor does who is closed while a partition that is to be given back waits for what ran through the failover.
#[tokio::test(start_paused = true)]
async fn partition_that_is_left_twice_stores_no_floor() {
    let (stage, seen) = (Stage::set(), Notes::<Delivery>::new());
    let (listener, mut desk) = Desk::open();
    let (builder, faults) = stage.faulty();
    let builder = builder.workers(16).delivery_timeout(HOUR / 4).lease_for(HOUR / 2).drain_timeout(SECOND);
    let builder = builder.rebalance_every(SECOND).ordered();
    let outbox = builder.on("OrderPlaced", listener).start().unwrap();
    stage.pass(SECOND).await;
    let orders = |numbers: std::ops::Range<u32>| {
        let order = |number| placing(&format!("order-{number}")).key(format!("customer-{}", number % 16));
        numbers.map(|number| order(number).build().unwrap()).collect()
    };
    let replica = stage.store.replica();
    stage.insert(orders(0..16)).await;
    desk.accept_many(16).await;
    stage.pass(SECOND).await;
    stage.insert(orders(16..32)).await;
    let mut running = Vec::new();
    while running.len() < 16 {
        running.push(desk.next().await);
    }

    stage.store.fail_over(replica);
    stage.insert(orders(32..80)).await;
    faults.members.next(1);
    stage.pass(10 * SECOND).await;
    let (other, _) = start(&stage, &seen);
    stage.pass(20 * SECOND).await;
    outbox.close().await;
    stage.pass(60 * SECOND).await;

    assert_eq!((seen.len(), seen.distinct().len()), (48, 48), "{:?}", seen.ids());
    assert_eq!(other.counts().below_floor, 0);
}

/// No loss: what was closed before a failover is open again after it.
#[tokio::test(start_paused = true)]
async fn closed_number_from_before_a_failover_counts_no_more() {
    let (stage, seen) = (Stage::set(), Notes::<Delivery>::new());
    let (builder, faults) = stage.faulty();
    let builder = builder.heartbeat_every(10 * MILLISECOND).poll_every(SECOND).ordered();
    let outbox = builder.on("OrderPlaced", seen.listener()).start().unwrap();
    stage.pass(SECOND).await;
    let replica = stage.store.replica();
    for order in 1..=3 {
        write(&outbox, placed(&format!("order-{order}"))).await;
    }
    stage.pass(5 * MILLISECOND).await;
    assert_eq!(seen.len(), 3);

    stage.store.fail_over(replica);
    faults.members.next(1);
    stage.pass(50 * MILLISECOND).await;
    stage.pending(&["order-4", "order-5", "order-6", "order-7"]).await;
    stage.pass(60 * SECOND).await;

    assert_eq!((seen.len(), seen.distinct().len()), (7, 7), "{:?}", seen.ids());
    assert_eq!(outbox.counts().below_floor, 0);
}

/// O5: an epoch that a failover has given a second time is given back: what was read under it the first time may still
/// run, and its end must not pass for that of what is read now. Its partition is read again when it has ended.
#[tokio::test(start_paused = true)]
async fn epoch_that_is_given_a_second_time_is_given_back() {
    let stage = Stage::set();
    let (listener, mut desk) = Desk::open();
    let (owner, live_for) = (Owner::new("first", 1), 30 * SECOND);
    let first = Instance { owner, is_named: false, mode: Mode::Ownership, live_for };
    stage.store.join(&first).await.unwrap();
    stage.store.leave(&first.owner).await.unwrap();
    let of_customer = |order: &str| placing(order).key("customer-9").build().unwrap();
    stage.insert(vec![of_customer("order-1"), of_customer("order-2")]).await;
    let replica = stage.store.replica();
    let (builder, faults) = stage.faulty();
    let builder = builder.delivery_timeout(HOUR / 4).lease_for(HOUR / 2).ordered();
    let outbox = builder.on("OrderPlaced", listener).start().unwrap();
    let from_before = desk.next().await;
    let before = outbox.partitions()[0].epoch;

    stage.store.fail_over(replica);
    faults.members.next(1);
    stage.pass(30 * SECOND).await;

    let floors = outbox.partitions();
    assert_eq!(floors.len(), PARTITIONS - 1, "one waits for what was begun before");
    assert!(floors.iter().all(|floor| floor.epoch > before), "{floors:?}");
    from_before.fail(ListenerError::new("too late"));
    let again = desk.next().await;
    assert_eq!(outbox.partitions().len(), PARTITIONS);
    stage.pass(SECOND).await;
    assert_eq!(stage.status("order-1").await, Status::New, "what came too late is not recorded");
    again.succeed();
    assert_eq!(desk.accept().await.id(), "order-2");
    stage.pass(SECOND).await;
    assert_eq!(stage.status("order-2").await, Status::Done);
}
