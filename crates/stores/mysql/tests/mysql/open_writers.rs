//! A business transaction that stays open beside the store.

use std::time::Duration;

use pillarbox::store::{
    Administration, DoneRows, EventStore, Outcome, Purge, Selection, Settlement, TxStore,
};
use pillarbox_mysql::MySqlStore;
use pillarbox_testkit::conformance::{claim, order_placed, write};

use crate::stage::MySqlStage;

/// S9, D12: rows that someone has written and not committed stand in the way of no settlement, purge or discard,
/// however small the table is.
pub(crate) async fn open_transaction_stands_in_nobodys_way(stage: &MySqlStage) {
    let orders: Vec<_> = (1..=8).map(|number| order_placed(&format!("order-{number}"))).collect();
    write(stage, &orders).await;
    let mut open = stage.store.begin().await.unwrap();
    stage.store.insert(&mut open, &[order_placed("order-9")], None).await.unwrap();

    let deleted = settle_some(stage, 3, Outcome::Done, DoneRows::Delete).await;
    let done = settle_some(stage, 3, Outcome::Done, DoneRows::Keep).await;
    let error = "the customer is unknown".to_owned();
    let dead = settle_some(stage, 2, Outcome::Dead { error, spent: true }, DoneRows::Keep).await;
    let purge = Purge { older_than: Duration::ZERO, limit: 100, after: 0, dead_too: false };
    let purged = stage.store.purge(purge).await.unwrap().deleted;
    let discarded = stage.store.discard(&Selection::Numbers { from: 0, to: i64::MAX }).await.unwrap();

    assert_eq!((deleted, done, dead), (0, 0, 0), "no lease was lost");
    assert_eq!((purged, discarded.len()), (3, 2));
    MySqlStore::commit(open).await.unwrap();
    assert_eq!(stage.store.stats().await.unwrap().pending(), 1);
}

/// Takes events and settles them; returns how many leases were lost.
async fn settle_some(stage: &MySqlStage, count: usize, outcome: Outcome, done: DoneRows) -> usize {
    let taken = claim(stage, count).await.events;
    assert_eq!(taken.len(), count);
    let settlements: Vec<_> = taken.iter().map(|taken| Settlement::of(taken, outcome.clone())).collect();
    stage.store.settle(&settlements, done).await.unwrap().len()
}
