//! What an operator does with dead events.

use pillarbox::store::{Administration, Selection};
use pillarbox::{Delivery, ListenerError};
use tracing::Level;

use crate::logs::Logs;
use crate::stage::{Notes, Stage, orders, write_all};

/// S2: an event that is discarded is gone, and is logged by its id.
#[tokio::test(start_paused = true)]
async fn discarded_event_is_logged() {
    let (stage, seen, logs) = (Stage::set(), Notes::<Delivery>::new(), Logs::collect());
    let listener = seen.answering(|_| Err(ListenerError::permanent("no such customer")));
    let outbox = stage.outbox().on("OrderPlaced", listener).start().unwrap();
    write_all(&outbox, &orders(2)).await;
    stage.quiet().await;

    let selection = Selection::Ids(vec!["order-1".to_owned(), "order-9".to_owned()]);
    let discarded = stage.store.discard(&selection).await.unwrap();

    assert_eq!(discarded, ["order-1"]);
    assert_eq!((stage.has_row("order-1").await, stage.has_row("order-2").await), (false, true));
    assert_eq!(logs.at(Level::INFO), ["discarded a dead event event_id=order-1"]);
}
