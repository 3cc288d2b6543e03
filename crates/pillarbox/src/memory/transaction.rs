//! Transactions of the memory store.

use std::collections::BTreeSet;
use std::sync::{Arc, PoisonError};

use super::row::Row;
use super::{Database, MemoryStore, check_lease, refused};
use crate::Event;
use crate::runtime::BoxFuture;
use crate::store::{Birth, CommitError, InsertError, StoreError, TxStore};

/// An open transaction of a [`MemoryStore`]; dropping it rolls back.
///
/// [`MemoryStore::open`] makes one as a user's own driver would.
pub struct MemoryTransaction {
    connection: MemoryConnection,
}

impl MemoryTransaction {
    pub(super) fn begin(database: Arc<Database>) -> Self {
        #[cfg(pillarbox_mutant)]
        let begun_at = database.now();
        let connection = MemoryConnection {
            session: database.failovers(),
            database,
            staged: Vec::new(),
            first: None,
            is_aborted: false,
            #[cfg(pillarbox_mutant)]
            begun_at,
        };
        Self { connection }
    }

    /// The connection, to write on.
    pub fn connection(&mut self) -> &mut MemoryConnection {
        &mut self.connection
    }

    /// Makes all that was inserted visible to others, unless another transaction committed one of its event
    /// ids first. An aborted transaction answers `Ok` and rolls back.
    pub fn commit(self) -> Result<(), CommitError> {
        self.connection.commit()
    }

    /// Forgets all that was inserted.
    pub fn rollback(self) {}
}

/// The connection of a [`MemoryTransaction`].
pub struct MemoryConnection {
    database: Arc<Database>,
    /// How many failovers there had been when it was opened.
    session: u64,
    staged: Vec<Row>,
    /// The first number that the transaction got, whatever became of the row.
    first: Option<i64>,
    is_aborted: bool,
    #[cfg(pillarbox_mutant)]
    begun_at: crate::Timestamp,
}

/// Why a transaction from before a failover cannot go on.
const CUT: &str = "the connection was lost in a failover";

/// A point in a transaction that can be gone back to.
#[derive(Clone, Copy, Debug)]
pub struct Savepoint {
    staged: usize,
}

impl MemoryConnection {
    /// Marks this point of the transaction.
    pub fn savepoint(&self) -> Savepoint {
        Savepoint { staged: self.staged.len() }
    }

    /// Forgets all that was inserted since `savepoint`, and lets an aborted transaction go on.
    pub fn rollback_to(&mut self, savepoint: Savepoint) {
        self.staged.truncate(savepoint.staged);
        self.is_aborted = false;
    }

    /// Aborts the transaction as an error does in PostgreSQL: inserts are refused from now on, and COMMIT
    /// answers `Ok` and rolls back. For tests.
    pub fn abort_silently(&mut self) {
        self.is_aborted = true;
    }

    /// Whether the database that it was opened on has been replaced.
    fn is_cut(&self) -> bool {
        self.session != self.database.failovers()
    }

    fn insert(&mut self, events: &[Event], birth: Option<&Birth>) -> Result<(), InsertError> {
        if self.is_aborted {
            return Err(InsertError::Store(refused("the transaction is aborted; roll it back")));
        }
        if self.is_cut() {
            return Err(InsertError::Store(StoreError::unavailable(CUT)));
        }
        if let Some(birth) = birth {
            check_lease(birth.lease_for).map_err(InsertError::Store)?;
        }
        let mut table = self.database.table();
        let mut ids: BTreeSet<&str> = self.staged.iter().map(|row| row.event.id()).collect();
        for event in events {
            if !ids.insert(event.id()) || table.seq_of(event.id()).is_some() {
                return Err(InsertError::DuplicateId { id: event.id().to_owned() });
            }
        }
        if self.first.is_none() && !events.is_empty() {
            let first = table.last_seq() + 1;
            self.first = Some(first);
            table.opened(first);
        }
        #[cfg(pillarbox_mutant)]
        if let Some(first) = self.first.filter(|_| !self.staged.is_empty()) {
            table.identities.identified(first);
        }
        let now = self.database.now();
        self.staged.extend(events.iter().map(|event| Row::insert(table.next_seq(), event, birth, now)));
        #[cfg(pillarbox_mutant)]
        if let Some(birth) = birth.filter(|_| crate::mutant::mutant!(LeaseFromTransactionStart)) {
            let leased = self.staged.iter_mut().filter(|row| row.lock.is_some());
            leased.for_each(|row| row.available_at = self.begun_at.saturating_add(birth.lease_for));
        }
        Ok(())
    }

    fn commit(mut self) -> Result<(), CommitError> {
        if self.is_aborted {
            return Ok(());
        }
        if self.is_cut() {
            return Err(CommitError::Unknown { reason: CUT.to_owned(), source: None });
        }
        let mut table = self.database.table();
        if let Some(row) = self.staged.iter().find(|row| table.seq_of(row.event.id()).is_some()) {
            let reason = format!("an event with the id `{}` was committed by another", row.event.id());
            return Err(CommitError::RolledBack { reason, source: None });
        }
        if let Some(journal) = &self.database.journal {
            let events = self.staged.iter().map(|row| row.event.clone());
            journal.lock().unwrap_or_else(PoisonError::into_inner).extend(events);
        }
        std::mem::take(&mut self.staged).into_iter().for_each(|row| table.add(row));
        Ok(())
    }
}

impl Drop for MemoryConnection {
    fn drop(&mut self) {
        if let Some(first) = self.first.filter(|_| !self.is_cut()) {
            self.database.table().ended(first);
        }
    }
}

impl TxStore for MemoryStore {
    type Connection = MemoryConnection;
    type Tx = MemoryTransaction;
    type Foreign<'c> = MemoryTransaction;

    fn begin(&self) -> BoxFuture<'static, Result<Self::Tx, StoreError>> {
        let tx = self.open();
        Box::pin(async move { Ok(tx) })
    }

    fn connection(tx: &Self::Tx) -> &Self::Connection {
        &tx.connection
    }

    fn connection_mut(tx: &mut Self::Tx) -> &mut Self::Connection {
        &mut tx.connection
    }

    fn foreign_connection<'a>(tx: &'a mut Self::Foreign<'_>) -> &'a mut Self::Connection {
        &mut tx.connection
    }

    /// Inserts into the database of `connection`, which need not be this one.
    fn insert<'a>(
        &'a self,
        connection: &'a mut Self::Connection,
        events: &'a [Event],
        birth: Option<&'a Birth>,
    ) -> BoxFuture<'a, Result<(), InsertError>> {
        Box::pin(async move { connection.insert(events, birth) })
    }

    fn commit(tx: Self::Tx) -> BoxFuture<'static, Result<(), CommitError>> {
        Box::pin(async move { tx.commit() })
    }

    fn rollback(tx: Self::Tx) -> BoxFuture<'static, Result<(), StoreError>> {
        Box::pin(async move {
            tx.rollback();
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{Administration, Status};

    fn order_placed(id: &str) -> Event {
        Event::builder("OrderPlaced").id(id).json_text("{}").build().unwrap()
    }

    async fn insert(store: &MemoryStore, tx: &mut MemoryTransaction, id: &str) -> Result<(), InsertError> {
        store.insert(tx.connection(), &[order_placed(id)], None).await
    }

    async fn seq_of(store: &MemoryStore, id: &str) -> Option<i64> {
        store.find(id).await.unwrap().map(|row| row.seq)
    }

    #[tokio::test]
    async fn commits_may_come_in_another_order_than_numbers() {
        let store = MemoryStore::new();
        let (mut first, mut second) = (store.open(), store.open());
        insert(&store, &mut first, "order-1").await.unwrap();
        insert(&store, &mut second, "order-2").await.unwrap();

        second.commit().unwrap();
        assert_eq!((seq_of(&store, "order-1").await, seq_of(&store, "order-2").await), (None, Some(2)));
        first.commit().unwrap();

        assert_eq!(seq_of(&store, "order-1").await, Some(1));
    }

    #[tokio::test]
    async fn rollback_leaves_a_gap() {
        let store = MemoryStore::new();
        let mut tx = store.open();
        insert(&store, &mut tx, "order-1").await.unwrap();
        tx.rollback();

        let mut tx = store.open();
        insert(&store, &mut tx, "order-2").await.unwrap();
        tx.commit().unwrap();

        assert_eq!(seq_of(&store, "order-2").await, Some(2));
    }

    #[tokio::test]
    async fn second_commit_of_an_id_is_rolled_back_as_a_whole() {
        let store = MemoryStore::new();
        let (mut first, mut second) = (store.open(), store.open());
        insert(&store, &mut first, "order-1").await.unwrap();
        insert(&store, &mut second, "order-2").await.unwrap();
        insert(&store, &mut second, "order-1").await.unwrap();
        first.commit().unwrap();

        let refused = second.commit();

        assert!(matches!(refused, Err(CommitError::RolledBack { .. })), "{refused:?}");
        assert_eq!(seq_of(&store, "order-1").await, Some(1));
        assert_eq!(seq_of(&store, "order-2").await, None);
    }

    /// W13: the `Ok` of a commit proves nothing.
    #[tokio::test]
    async fn aborted_transaction_answers_ok_and_rolls_back() {
        let store = MemoryStore::new();
        let mut tx = store.open();
        insert(&store, &mut tx, "order-1").await.unwrap();

        tx.connection().abort_silently();
        let refused = insert(&store, &mut tx, "order-2").await;

        assert!(matches!(refused, Err(InsertError::Store(StoreError::Refused { .. }))), "{refused:?}");
        tx.commit().unwrap();
        assert_eq!(seq_of(&store, "order-1").await, None);
    }

    #[tokio::test]
    async fn savepoint_saves_an_aborted_transaction() {
        let store = MemoryStore::new();
        let mut tx = store.open();
        insert(&store, &mut tx, "order-1").await.unwrap();
        let savepoint = tx.connection().savepoint();
        insert(&store, &mut tx, "order-2").await.unwrap();
        tx.connection().abort_silently();

        tx.connection().rollback_to(savepoint);
        tx.commit().unwrap();

        assert_eq!(store.find("order-1").await.unwrap().unwrap().status, Ok(Status::New));
        assert_eq!(seq_of(&store, "order-2").await, None);
    }
}
