//! Transactions of the store's own, and writing inside them or inside those of others.

mod insert;
mod session;

use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::time::Duration;

use pillarbox::store::{Birth, CommitError, InsertError, StoreError, TxStore};
use pillarbox::{BoxFuture, Event};
use pillarbox_sql::{Panicked, Step, refusal, to_its_end};
use sqlx::Transaction;
use sqlx::postgres::{PgConnection, Postgres};
use tokio::runtime::Handle;

use session::{Fault, Session};

use crate::PostgresStore;
use crate::fault::{self, Place};
use crate::store::Inner;

/// How long a rollback may take that nobody waits for. Closing the connection rolls back too.
const DROP_PATIENCE: Duration = Duration::from_secs(1);

/// A transaction that [`begin`](TxStore::begin) opened, at READ COMMITTED whatever the role's default is.
///
/// It stands for its connection, so statements run on `&mut *tx`. Dropped, it rolls back. If a transaction inside of
/// it (`tx.begin()`) fails to begin, or is given up while it does, this one has ended: it takes no more events, and
/// [`commit`](TxStore::commit) is an error.
pub struct PostgresTx {
    session: Option<Session>,
    inner: Arc<Inner>,
    runtime: Handle,
}

impl PostgresTx {
    async fn begin(inner: Arc<Inner>) -> Result<Self, StoreError> {
        let (place, patience) = (&inner.line.place, inner.line.connect_timeout);
        // Connections that died since they were last used are found out here, one by one.
        let mut most_stale = inner.pool.size();
        let session = loop {
            let acquired = inner.pool.acquire().await.map_err(|error| place.connect(error))?;
            match Session::begin(acquired, patience).await {
                Ok(session) => break session,
                Err(Fault::Said(error)) if most_stale > 0 && fault::is_lost(&error) => most_stale -= 1,
                Err(fault) => return Err(explain(place, fault, patience)),
            }
        };
        Ok(Self { session: Some(session), inner, runtime: Handle::current() })
    }

    async fn commit(mut self) -> Result<(), CommitError> {
        let Some(session) = self.session.take() else { return Ok(()) };
        let committed = session.commit(self.inner.line.patience()).await;
        committed.map_err(|fault| explain_commit(&self.inner.line.place, fault))
    }

    async fn rollback(mut self) -> Result<(), StoreError> {
        let Some(session) = self.session.take() else { return Ok(()) };
        let patience = self.inner.line.patience();
        let rolled_back = session.roll_back(patience).await;
        rolled_back.map_err(|fault| explain(&self.inner.line.place, fault, patience))
    }
}

fn explain(place: &Place, fault: Fault, patience: Duration) -> StoreError {
    match fault {
        Fault::Said(error) => place.store(error),
        Fault::Silence => place.silent(patience),
        Fault::EndedBefore => refusal(place.ended_before()),
        Fault::OpenInside => refusal(place.open_inside()),
    }
}

fn explain_commit(place: &Place, fault: Fault) -> CommitError {
    let unknown = |reason| CommitError::Unknown { reason, source: None };
    match fault {
        Fault::Said(error) => place.commit(error),
        Fault::Silence => unknown(format!("`{place}` did not answer")),
        // Whether by a rollback, or by a COMMIT of one inside that took itself for another, is not known.
        Fault::EndedBefore => unknown(place.ended_before()),
        Fault::OpenInside => CommitError::RolledBack { reason: place.open_inside(), source: None },
    }
}

impl Deref for PostgresTx {
    type Target = PgConnection;

    fn deref(&self) -> &PgConnection {
        self.session.as_ref().expect(OPEN)
    }
}

impl DerefMut for PostgresTx {
    fn deref_mut(&mut self) -> &mut PgConnection {
        self.session.as_mut().expect(OPEN)
    }
}

const OPEN: &str = "a transaction is open until it is consumed";

impl Drop for PostgresTx {
    fn drop(&mut self) {
        let Some(session) = self.session.take() else { return };
        let inner = Arc::clone(&self.inner);
        // Given to a runtime that is gone, the pool still needs one to take its connection back.
        let _context = self.runtime.enter();
        self.runtime.spawn(async move {
            if let Err(fault) = session.roll_back(DROP_PATIENCE).await {
                let place = &inner.line.place;
                let error = explain(place, fault, DROP_PATIENCE);
                tracing::warn!(database = %place, %error, "a transaction could not be rolled back; its connection is closed");
            }
        });
    }
}

impl std::fmt::Debug for PostgresTx {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let place = format_args!("{}", self.inner.line.place).to_string();
        f.debug_struct("PostgresTx").field("database", &place).finish_non_exhaustive()
    }
}

impl TxStore for PostgresStore {
    type Connection = PgConnection;
    type Tx = PostgresTx;
    /// A transaction of your own `sqlx`. After a statement in it has failed, PostgreSQL commits nothing of it,
    /// whatever its commit answers. After one inside of it failed to begin, or was given up while it did, `sqlx` has
    /// rolled all of it back, and it takes no more events; its commit answers `Ok` all the same.
    type Foreign<'c> = Transaction<'c, Postgres>;

    fn begin(&self) -> BoxFuture<'static, Result<PostgresTx, StoreError>> {
        Box::pin(to_its_end(PostgresTx::begin(Arc::clone(&self.inner))))
    }

    fn connection(tx: &PostgresTx) -> &PgConnection {
        tx
    }

    fn connection_mut(tx: &mut PostgresTx) -> &mut PgConnection {
        tx
    }

    fn foreign_connection<'a>(tx: &'a mut Transaction<'_, Postgres>) -> &'a mut PgConnection {
        tx
    }

    fn insert<'a>(
        &'a self,
        connection: &'a mut PgConnection,
        events: &'a [Event],
        birth: Option<&'a Birth>,
    ) -> BoxFuture<'a, Result<(), InsertError>> {
        Box::pin(insert::insert(&self.inner, connection, events, birth))
    }

    fn commit(tx: PostgresTx) -> BoxFuture<'static, Result<(), CommitError>> {
        Box::pin(async move {
            Step::new(tx.commit()).await.unwrap_or_else(|Panicked| {
                let reason = "a step of the store panicked".into();
                Err(CommitError::Unknown { reason, source: None })
            })
        })
    }

    fn rollback(tx: PostgresTx) -> BoxFuture<'static, Result<(), StoreError>> {
        Box::pin(to_its_end(tx.rollback()))
    }
}
