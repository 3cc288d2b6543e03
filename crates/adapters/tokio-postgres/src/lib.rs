//! Writes Pillarbox events inside a transaction of [`tokio_postgres`].
//!
//! ```no_run
//! use pillarbox::{Event, Outbox};
//! use pillarbox_postgres::PostgresStore;
//! use tokio_postgres::Client;
//!
//! async fn place(
//!     outbox: &Outbox<PostgresStore>,
//!     client: &mut Client,
//!     id: &str,
//! ) -> Result<(), Box<dyn std::error::Error>> {
//!     let tx = client.transaction().await?;
//!     tx.execute("INSERT INTO orders (id) VALUES ($1)", &[&id]).await?;
//!     let placed = Event::builder("OrderPlaced").aggregate("Order", id).json_text("{}");
//!     let receipt = pillarbox_tokio_postgres::write_in(outbox, &tx, [placed]).await?;
//!     tx.commit().await?;
//!     outbox.committed(receipt);
//!     Ok(())
//! }
//! ```
//!
//! - [`write_in`] is all there is; it is to this driver what [`Outbox::write_in`](pillarbox::Outbox::write_in) is
//!   to `sqlx`.
//! - [`Names`] stand in for the outbox where a program only writes and a relay delivers.

use pillarbox::{Event, IntoEvent, Receipt, WriteError};
use pillarbox_sql::canonical::{Cause, Database, Insert, Value};
use pillarbox_sql::chunks;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Error, Transaction};

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
/// It costs one statement and one round trip for every 500 events or 4 MiB, with nothing prepared, so it works
/// behind a pooler too. All events are checked before the first is written. After an error of the database
/// PostgreSQL takes no further statement in this transaction; if the future is cancelled half-way, roll back.
///
/// An id that exists already is [`WriteError::DuplicateId`]; only where the role may not read the table and the
/// call has several events, PostgreSQL does not say which, and the answer is [`WriteError::Store`].
pub async fn write_in<E: IntoEvent>(
    tables: &impl Tables,
    tx: &Transaction<'_>,
    events: impl IntoIterator<Item = E>,
) -> Result<Receipt, WriteError> {
    let insert = Insert::new(Database::Postgres, tables.names());
    let events = insert.checked(tables, events)?;
    for chunk in chunks(&events) {
        let written = execute(tx, &insert, chunk).await;
        written.map_err(|error| failed(&insert, chunk, error))?;
    }
    Ok(Receipt::of_events(&events))
}

async fn execute(tx: &Transaction<'_>, insert: &Insert, events: &[Event]) -> Result<u64, Error> {
    let values: Vec<Value<'_>> = events.iter().flat_map(|event| insert.bound(event)).collect();
    let bound: Vec<(&(dyn ToSql + Sync), Type)> = values
        .iter()
        .map(|value| match value {
            Value::Text(text) => (text as &(dyn ToSql + Sync), Type::TEXT),
            Value::Bytes(bytes) => (bytes as _, Type::BYTEA),
            Value::Number(number) => (number as _, Type::INT8),
        })
        .collect();
    tx.execute_typed(&insert.for_events(events.len()), &bound).await
}

fn failed(insert: &Insert, events: &[Event], error: Error) -> WriteError {
    let cause = error.code().map_or(Cause::Unavailable, |state| Cause::of_sqlstate(state.code()));
    let detail = error.as_db_error().and_then(|error| error.detail()).map(str::to_owned);
    insert.failed(events, cause, detail.as_deref(), error)
}
