//! Two live instances under one name.

use pillarbox::store::Status;
use pillarbox::{Delivery, MemoryStore, Outbox, Stopped};
use pillarbox_testkit::acceptance::{Counter, Desk};
use tracing::Level;

use crate::logs::Logs;
use crate::stage::{HOUR, Notes, SECOND, Stage, placed, write};

const NAME: &str = "relay-1";

fn start(stage: &Stage, listener: Counter) -> Outbox<MemoryStore> {
    stage.outbox().name(NAME).workers(1).on("OrderPlaced", listener).poller_only().start().unwrap()
}

/// S10: the older of two namesakes learns it when its outcome is lost, says so, and stops.
#[tokio::test(start_paused = true)]
async fn older_namesake_stops_when_it_settles() {
    let (stage, (listener, mut desk)) = (Stage::set(), Desk::open());
    stage.pending(&["order-1"]).await;
    let older = start(&stage, listener);
    let call = desk.next().await;

    let seen = Notes::<Delivery>::new();
    let _younger = stage.outbox().name(NAME).on("OrderPlaced", seen.listener()).start().unwrap();
    stage.pass(SECOND).await;
    assert_eq!(seen.ids(), ["order-1"], "the younger takes over what the older held");
    let logs = Logs::collect();
    call.succeed();
    assert_eq!(older.run(std::future::pending()).await, Err(Stopped::Superseded));

    let errors = logs.at(Level::ERROR);
    assert!(errors[0].starts_with("another instance was started under this name"), "{errors:?}");
    assert_eq!((older.counts().done, older.counts().lost_leases), (0, 1));
    stage.pending(&["order-2"]).await;
    stage.pass(HOUR).await;
    assert!(desk.waiting().is_none(), "the older begins nothing more");
    assert_eq!(stage.status("order-1").await, Status::Done);
}

/// S10: an older namesake that has lost nothing learns it all the same, with the next outcome of its own.
#[tokio::test(start_paused = true)]
async fn older_namesake_without_losses_stops_too() {
    let (stage, seen) = (Stage::set(), Notes::<Delivery>::new());
    let older = stage.outbox().name(NAME).on("OrderPlaced", seen.listener()).start().unwrap();
    stage.pass(SECOND).await;
    let younger = stage.outbox().name(NAME).on("OrderPlaced", seen.listener()).start().unwrap();
    stage.pass(2 * SECOND).await;

    write(&older, placed("order-1")).await;
    assert_eq!(older.stopped().await, Stopped::Superseded);
    write(&older, placed("order-2")).await;
    stage.pass(HOUR).await;

    assert_eq!(seen.ids(), ["order-1", "order-2"]);
    assert_eq!((older.counts().done, younger.counts().done), (1, 1));
}

/// S5: an instance that is started again under its name is the current one, and goes on.
#[tokio::test(start_paused = true)]
async fn restarted_instance_is_its_own_successor() {
    let (stage, seen) = (Stage::set(), Notes::<Delivery>::new());
    for order in ["order-1", "order-2"] {
        let outbox = stage.outbox().name(NAME).on("OrderPlaced", seen.listener()).start().unwrap();
        stage.pass(2 * SECOND).await;
        write(&outbox, placed(order)).await;
        stage.pass(2 * SECOND).await;
        outbox.close().await;
    }

    assert_eq!(seen.ids(), ["order-1", "order-2"]);
}
