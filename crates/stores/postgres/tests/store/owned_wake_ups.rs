//! Other processes' events wake the owner of their partition.

use std::time::Duration;

use pillarbox::{Outbox, Runtime};
use pillarbox_postgres::PostgresStore;
use pillarbox_testkit::acceptance::Desk;
use pillarbox_testkit::conformance::order_placed;
use tokio::time::timeout;

use crate::stage::PostgresStage;
use crate::wake_ups::PATIENCE;

/// What nobody waits for: the test relies on NOTIFY.
const NEVER: Duration = Duration::from_secs(3_600);

/// P5, O4: what one outbox commits reaches the owner of its partition in another without a poll or a heartbeat, event by
/// event, whether it was written in a transaction of ours or told of by a receipt.
pub(crate) async fn commit_reaches_the_owner_in_another_process_without_a_poll(stage: &PostgresStage) {
    let (listener, mut desk) = Desk::open();
    let owner = Outbox::builder(stage.options().connect().await.unwrap())
        .runtime(Runtime::tokio())
        .ordered()
        .on_aggregate("Order", "OrderPlaced", listener)
        .poller_only()
        .poll_every(NEVER)
        .heartbeat_every(NEVER / 4)
        .silent_after(NEVER)
        .start()
        .unwrap();
    let writer = Outbox::builder(PostgresStore::clone(&stage.store)).writer_only().start().unwrap();
    owner.poll().await.unwrap();
    assert_eq!(owner.partitions().len(), 256, "all of it is owned, and was read once");

    // The first may be found by the read that follows LISTEN.
    for number in 1..=5 {
        let event = order_placed(&format!("order-{number}"));
        let id = event.id().to_owned();
        if number % 2 == 0 {
            let mut tx = stage.store.pool().begin().await.unwrap();
            let receipt = writer.write_in(&mut tx, [event]).await.unwrap();
            tx.commit().await.unwrap();
            writer.committed(receipt);
        } else {
            let mut tx = writer.begin().await.unwrap();
            writer.write(&mut tx, event).await.unwrap();
            tx.commit().await.unwrap();
        }

        let delivered = timeout(PATIENCE, desk.accept()).await.expect("it is delivered");
        assert_eq!(delivered.id(), id);
    }
    owner.close().await;
}
