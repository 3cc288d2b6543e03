//! What goes wrong, and what diesel makes of transactions.

use diesel::result::Error;
use diesel_async::AsyncConnection;
use pillarbox::store::{Administration, StoreError};
use pillarbox::{Event, Store, WriteError};
use pillarbox_diesel::{Dialect, Names, Tables, write_in};

use crate::stage::Stage;

fn placed() -> Event {
    Event::of_json("OrderPlaced", "{}").unwrap()
}

/// What ends a transaction of these tests.
#[derive(Debug)]
pub(crate) enum Failure {
    Write(WriteError),
    Diesel,
}

impl From<WriteError> for Failure {
    fn from(error: WriteError) -> Self {
        Self::Write(error)
    }
}

impl From<Error> for Failure {
    fn from(_: Error) -> Self {
        Self::Diesel
    }
}

/// S7: an outbox that was never migrated is called so.
pub(crate) async fn missing_table_is_told<C, S>(stage: &Stage<C, S>)
where
    C: AsyncConnection<Backend: Dialect>,
    S: Store + Tables,
{
    let mut connection = stage.connect().await;
    let elsewhere = &Names::new(stage.store.names().schema(), "other_").unwrap();

    let written = connection.transaction(async |connection| {
        write_in(elsewhere, connection, [placed()]).await.map_err(Failure::from)
    });

    let error = written.await.unwrap_err();
    assert!(matches!(error, Failure::Write(WriteError::Store(StoreError::NotMigrated))), "{error:?}");
}

/// W3: without a transaction nothing is sent, and the error says where to write.
pub(crate) async fn write_without_a_transaction_is_refused<C, S>(stage: &Stage<C, S>)
where
    C: AsyncConnection<Backend: Dialect>,
    S: Store + Tables + Administration,
{
    let mut connection = stage.connect().await;

    let error = write_in(stage.store.names(), &mut connection, [placed()]).await.unwrap_err();

    let WriteError::Store(error) = error else { panic!("{error:?}") };
    assert!(error.to_string().contains("in the closure of `transaction`"), "{error}");
    assert_eq!(stage.store.stats().await.unwrap().pending(), 0);
}

/// W1: an event belongs to the nested transaction, a savepoint, in which it was written.
pub(crate) async fn write_in_a_nested_transaction_ends_with_it<C, S>(stage: &Stage<C, S>)
where
    C: AsyncConnection<Backend: Dialect>,
    S: Store + Tables + Administration,
{
    let mut connection = stage.connect().await;
    let (kept, undone) = (placed(), placed());
    let (tables, events) = (stage.store.names(), (kept.clone(), undone.clone()));

    let ended = connection.transaction(async |connection| {
        let receipt = write_in(tables, connection, [events.0]).await?;
        let nested = connection.transaction(async |connection| {
            let _ = write_in(tables, connection, [events.1]).await?;
            Err::<(), _>(Failure::Diesel)
        });
        nested.await.unwrap_err();
        Ok::<_, Failure>(receipt)
    });

    assert_eq!(ended.await.unwrap().ids(), [kept.id()]);
    assert!(stage.store.find(kept.id()).await.unwrap().is_some());
    assert!(stage.store.find(undone.id()).await.unwrap().is_none());
}
