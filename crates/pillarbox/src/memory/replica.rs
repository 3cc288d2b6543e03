//! Replicas of the memory store that take its place, though they lag behind.

use std::sync::atomic::Ordering;

use super::table::Table;
use super::{Database, MemoryStore};

/// What a [`MemoryStore`] held at some moment. For tests.
#[derive(Clone)]
pub struct Replica(Table);

impl std::fmt::Debug for Replica {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Replica")
    }
}

impl MemoryStore {
    /// A replica that has come as far as this database has now.
    pub fn replica(&self) -> Replica {
        Replica(self.database.table().clone())
    }

    /// Puts a replica in the place of this database: all that was committed since is taken back, members, leases and
    /// parked keys too, and the numbers that were given since are given again. Open transactions are lost.
    pub fn fail_over(&self, replica: Replica) {
        self.database.replace(|_| replica.0);
    }

    /// As [`fail_over`](Self::fail_over), but members, leases, the mode and paused routes stay: an operator restored the events
    /// alone.
    pub fn restore_events(&self, replica: Replica) {
        self.database.replace(|table| {
            let mut restored = replica.0;
            if restored.mode() != table.mode() {
                restored.switch_to(table.mode());
            }
            restored.membership = table.membership.clone();
            restored.paused = table.paused.clone();
            restored
        });
    }
}

impl Database {
    fn replace(&self, by: impl FnOnce(&Table) -> Table) {
        let mut table = self.table();
        *table = by(&table);
        table.cut_off();
        self.failovers.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn failovers(&self) -> u64 {
        self.failovers.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Event;
    use crate::store::{Administration, CommitError, InsertError, StoreError, TxStore};

    async fn insert(
        store: &MemoryStore,
        tx: &mut crate::MemoryTransaction,
        id: &str,
    ) -> Result<(), InsertError> {
        let event = Event::builder("OrderPlaced").id(id).json_text("{}").build().unwrap();
        store.insert(tx.connection(), &[event], None).await
    }

    /// A failover takes commits back, and gives their numbers again.
    #[tokio::test]
    async fn numbers_are_given_again_after_a_failover() {
        let store = MemoryStore::new();
        let replica = store.replica();
        let mut tx = store.open();
        insert(&store, &mut tx, "order-1").await.unwrap();
        tx.commit().unwrap();

        store.fail_over(replica);
        let mut tx = store.open();
        insert(&store, &mut tx, "order-2").await.unwrap();
        tx.commit().unwrap();

        assert!(store.find("order-1").await.unwrap().is_none());
        assert_eq!(store.find("order-2").await.unwrap().unwrap().seq, 1);
    }

    /// Whoever was in the middle of a transaction has lost it, and holds up nobody.
    #[tokio::test]
    async fn open_transactions_are_lost_in_a_failover() {
        let store = MemoryStore::new();
        let (mut writing, mut committing) = (store.open(), store.open());
        insert(&store, &mut writing, "order-1").await.unwrap();
        insert(&store, &mut committing, "order-2").await.unwrap();

        store.fail_over(store.replica());

        let refused = insert(&store, &mut writing, "order-3").await;
        assert!(matches!(refused, Err(InsertError::Store(StoreError::Unavailable { .. }))), "{refused:?}");
        assert!(matches!(committing.commit(), Err(CommitError::Unknown { .. })));
        assert_eq!(store.database.table().closed(), 2);
        assert_eq!(store.stats().await.unwrap().pending(), 0);
    }
}
