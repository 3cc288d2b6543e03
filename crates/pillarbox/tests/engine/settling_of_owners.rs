//! Recording what became of events where partitions are owned.

use std::sync::atomic::Ordering;

use pillarbox::Delivery;
use pillarbox::store::Status;
use tracing::Level;

use crate::logs::Logs;
use crate::owning::run_of;
use crate::stage::{MILLISECOND, Notes, SECOND, Stage, orders, write_all};

/// D12: under load outcomes are recorded in batches, where keys are in order too.
#[tokio::test(start_paused = true)]
async fn outcomes_of_owners_are_recorded_in_batches() {
    let (stage, seen) = (Stage::set(), Notes::<Delivery>::new());
    stage.insert(run_of("order-1", 500)).await;
    let (outbox, faults) = stage.faulty();
    *faults.settles_take.lock().unwrap() = 5 * MILLISECOND;
    let outbox = outbox.ordered().on("OrderPlaced", seen.listener()).start().unwrap();

    write_all(&outbox, &orders(501)[1..]).await;
    stage.pass(10 * SECOND).await;

    assert_eq!(outbox.counts().done, 1_000);
    assert_eq!(u64::from(faults.settled.load(Ordering::Relaxed)), outbox.counts().settle_batches);
    assert!(outbox.counts().settle_batches <= 100, "{:?}", outbox.counts());
}

/// D12: one row that the database refuses fails no other, and its key goes on.
#[tokio::test(start_paused = true)]
async fn poisoned_row_of_an_owner_fails_no_other() {
    let (stage, seen, logs) = (Stage::set(), Notes::<Delivery>::new(), Logs::collect());
    stage.insert(run_of("order-1", 36)).await;
    let (outbox, faults) = stage.faulty();
    faults.poisoned.store(37, Ordering::Relaxed);
    let outbox = outbox.ordered().on("OrderPlaced", seen.listener()).start().unwrap();

    write_all(&outbox, &orders(64)[1..]).await;
    stage.pass(SECOND / 2).await;

    assert_eq!(outbox.counts().done, 98);
    assert_eq!(stage.status("order-2").await, Status::New);
    assert!(faults.settled.load(Ordering::Relaxed) <= 60, "{faults:?}");
    let errors = logs.at(Level::ERROR);
    assert!(errors[0].starts_with("an outcome was not recorded"), "{errors:?}");
}

/// D12: a row that another transaction has locked holds up no other but those of its key.
#[tokio::test(start_paused = true)]
async fn locked_row_of_an_owner_holds_up_no_other_key() {
    let (stage, seen) = (Stage::set(), Notes::<Delivery>::new());
    stage.insert(run_of("order-1", 36)).await;
    let (outbox, faults) = stage.faulty();
    faults.locked.store(3, Ordering::Relaxed);
    let outbox = outbox.ordered().on("OrderPlaced", seen.listener()).start().unwrap();

    write_all(&outbox, &orders(64)[1..]).await;
    stage.pass(SECOND / 2).await;
    let done = outbox.counts().done;
    faults.locked.store(0, Ordering::Relaxed);
    stage.pass(SECOND).await;

    assert_eq!((done, outbox.counts().done), (98, 99));
    assert_eq!((seen.len(), stage.status("order-1.3").await), (99, Status::Done));
}
