//! Writes Pillarbox events inside a transaction of [SeaORM](sea_orm) 2, on PostgreSQL, MySQL, MariaDB or SQLite.
//!
//! ```no_run
//! use pillarbox::{Event, Outbox};
//! use pillarbox_postgres::PostgresStore;
//! use sea_orm::{ConnectionTrait, DatabaseConnection, TransactionTrait};
//!
//! async fn place(
//!     outbox: &Outbox<PostgresStore>,
//!     database: &DatabaseConnection,
//! ) -> Result<(), Box<dyn std::error::Error>> {
//!     let tx = database.begin().await?;
//!     tx.execute_unprepared("INSERT INTO orders (id) VALUES ('order-17')").await?;
//!     let placed = Event::builder("OrderPlaced").aggregate("Order", "order-17").json_text("{}");
//!     let receipt = pillarbox_sea_orm::write_in(outbox, &tx, [placed]).await?;
//!     tx.commit().await?;
//!     outbox.committed(receipt);
//!     Ok(())
//! }
//! ```
//!
//! - [`write_in`] is all there is; it is to SeaORM what [`Outbox::write_in`](pillarbox::Outbox::write_in) is to
//!   `sqlx`.
//! - [`Names`] stand in for the outbox where a program only writes and a relay delivers.
//!
//! SeaORM and the stores of Pillarbox are on the same `sqlx`, so that both can link SQLite into one program. On
//! SQLite begin with [`SqliteTransactionMode::Immediate`](sea_orm::SqliteTransactionMode::Immediate): otherwise a
//! transaction that reads first and writes then fails when another writer came in between.

mod fault;

use pillarbox::store::StoreError;
use pillarbox::{Event, IntoEvent, Receipt, WriteError};
use pillarbox_sql::canonical::{Database, Insert, KEEP, UNDO, Value as Bound};
use pillarbox_sql::{chunks, refusal};
use sea_orm::{ConnectionTrait, DatabaseBackend, DatabaseTransaction, Statement, Value};

pub use pillarbox_sql::{Names, canonical::Tables};

/// Writes events inside a transaction of yours.
///
/// `tables` is the outbox, its store, or the [`Names`] of its tables. Hand the [`Receipt`] to
/// [`Outbox::committed`](pillarbox::Outbox::committed) after your commit, and the poller delivers at once; forget
/// it, and the events are delivered by the next poll.
///
/// Through an outbox that is disabled, or stores no events, nothing is written, as by
/// [`Outbox::write_in`](pillarbox::Outbox::write_in); a store and names know nothing of that.
///
/// It costs one statement for every 500 events or 4 MiB, prepared once per connection for each number of events.
/// All events are checked before the first is written, and all are written or none: where a call needs several
/// statements on MySQL or SQLite, they are put into a savepoint. On PostgreSQL an error of the database is the end
/// of your transaction. If the future is cancelled half-way, roll back.
///
/// An `occurred_at` that the database cannot hold is refused: on MySQL one outside the years 1000 to 9999.
///
/// An id that exists already is [`WriteError::DuplicateId`]; only where the role may not read the table and the
/// call has several events, PostgreSQL does not say which, and the answer is [`WriteError::Store`].
pub async fn write_in<E: IntoEvent>(
    tables: &impl Tables,
    tx: &DatabaseTransaction,
    events: impl IntoIterator<Item = E>,
) -> Result<Receipt, WriteError> {
    let insert = Insert::new(database(tx).map_err(WriteError::Store)?, tables.names());
    let events = insert.checked(tables, events)?;
    if let Some(savepoint) = insert.savepoint(&events) {
        let run = async |sql| tx.execute_unprepared(sql).await.map_err(|error| fault::failed(&insert, error));
        run(savepoint).await?;
        if let Err(error) = write_chunks(tx, &insert, &events).await {
            // If this fails too, the first error still says what to do: roll back.
            let _ = run(UNDO).await;
            return Err(error);
        }
        run(KEEP).await?;
    } else {
        write_chunks(tx, &insert, &events).await?;
    }
    Ok(Receipt::of_events(&events))
}

async fn write_chunks(tx: &DatabaseTransaction, insert: &Insert, events: &[Event]) -> Result<(), WriteError> {
    for chunk in chunks(events) {
        let bound = chunk.iter().flat_map(|event| insert.bound(event)).map(value);
        let sql = insert.for_events(chunk.len());
        let statement = Statement::from_sql_and_values(tx.get_database_backend(), sql, bound);
        if let Err(error) = tx.execute_raw(statement).await {
            return Err(fault::insert_failed(tx, insert, chunk, error).await);
        }
    }
    Ok(())
}

fn database(tx: &DatabaseTransaction) -> Result<Database, StoreError> {
    match tx.get_database_backend() {
        DatabaseBackend::Postgres => Ok(Database::Postgres),
        DatabaseBackend::MySql => Ok(Database::MySql),
        DatabaseBackend::Sqlite => Ok(Database::Sqlite),
        other => Err(refusal(format!("there is no outbox on `{other:?}`; use PostgreSQL, MySQL or SQLite"))),
    }
}

fn value(bound: Bound<'_>) -> Value {
    match bound {
        Bound::Text(text) => Value::String(text.map(|text| text.into_owned())),
        Bound::Bytes(bytes) => Value::Bytes(bytes.map(<[u8]>::to_vec)),
        Bound::Number(number) => Value::BigInt(number),
    }
}
