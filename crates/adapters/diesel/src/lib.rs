//! Writes Pillarbox events inside a transaction of [`diesel_async`].
//!
//! ```no_run
//! # #[cfg(feature = "postgres")]
//! # mod example {
//! use diesel_async::{AsyncConnection, AsyncPgConnection, RunQueryDsl};
//! use pillarbox::{Event, Outbox};
//! use pillarbox_postgres::PostgresStore;
//!
//! type Failure = Box<dyn std::error::Error + Send + Sync>;
//!
//! async fn place(outbox: &Outbox<PostgresStore>, connection: &mut AsyncPgConnection) -> Result<(), Failure> {
//!     let placed = connection.transaction(async |connection| {
//!         diesel::sql_query("INSERT INTO orders (id) VALUES ('order-17')").execute(connection).await?;
//!         let placed = Event::builder("OrderPlaced").aggregate("Order", "order-17").json_text("{}");
//!         let receipt = pillarbox_diesel::write_in(outbox, connection, [placed]).await?;
//!         Ok::<_, Failure>(receipt)
//!     });
//!     outbox.committed(placed.await?);
//!     Ok(())
//! }
//! # }
//! ```
//!
//! - [`write_in`] is all there is; it is to diesel what [`Outbox::write_in`](pillarbox::Outbox::write_in) is to
//!   `sqlx`.
//! - [`Names`] stand in for the outbox where a program only writes and a relay delivers.
//!
//! | feature | default | brings |
//! |---|---|---|
//! | `postgres` | on | `AsyncPgConnection` |
//! | `mysql` | on | `AsyncMysqlConnection` |

mod fault;
mod rows;

use diesel_async::{AsyncConnection, RunQueryDsl, TransactionManager};
use pillarbox::{Event, IntoEvent, Receipt, WriteError};
use pillarbox_sql::canonical::{Insert, KEEP, UNDO};
use pillarbox_sql::{chunks, refusal};

use rows::Rows;

pub use pillarbox_sql::{Names, canonical::Tables};
pub use rows::Dialect;

#[cfg(not(any(feature = "postgres", feature = "mysql")))]
compile_error!("`pillarbox-diesel` needs at least one of its features `postgres` and `mysql`");

#[cfg(feature = "mysql")]
rows::dialect!(diesel::mysql::Mysql, MySql);
#[cfg(feature = "postgres")]
rows::dialect!(diesel::pg::Pg, Postgres);

/// Writes events inside a transaction of yours: call it in the closure of
/// [`transaction`](AsyncConnection::transaction).
///
/// `tables` is the outbox, its store, or the [`Names`] of its tables. Let the closure return the [`Receipt`] and
/// hand it to [`Outbox::committed`](pillarbox::Outbox::committed) when the transaction has ended well, and the
/// poller delivers at once; forget it, and the events are delivered by the next poll.
///
/// Through an outbox that is disabled, or stores no events, nothing is written, as by
/// [`Outbox::write_in`](pillarbox::Outbox::write_in); a store and names know nothing of that.
///
/// It costs one statement for every 500 events or 4 MiB; that for a single event is prepared once per connection,
/// others each time. All events are checked before the first is written, and all are written or none: where a call
/// needs several statements on MySQL, they are put into a savepoint. On PostgreSQL an error of the database is the
/// end of your transaction. If the future is cancelled half-way, close the connection: diesel leaves the
/// transaction open.
///
/// An `occurred_at` that the database cannot hold is refused: on MySQL one outside the years 1000 to 9999.
///
/// An id that exists already is [`WriteError::DuplicateId`]; only where the role may not read the table and the
/// call has several events, PostgreSQL does not say which, and the answer is [`WriteError::Store`]. So it is
/// without a transaction, and then nothing is sent.
pub async fn write_in<C, E>(
    tables: &impl Tables,
    connection: &mut C,
    events: impl IntoIterator<Item = E>,
) -> Result<Receipt, WriteError>
where
    C: AsyncConnection,
    C::Backend: Dialect,
    E: IntoEvent,
{
    let insert = Insert::new(C::Backend::DATABASE, tables.names());
    let events = insert.checked(tables, events)?;
    check_transaction(connection)?;
    if let Some(savepoint) = insert.savepoint(&events) {
        run(connection, &insert, savepoint).await?;
        if let Err(error) = write_chunks(connection, &insert, &events).await {
            // If this fails too, the first error still says what to do: roll back.
            let _ = run(connection, &insert, UNDO).await;
            return Err(error);
        }
        run(connection, &insert, KEEP).await?;
    } else {
        write_chunks(connection, &insert, &events).await?;
    }
    Ok(Receipt::of_events(&events))
}

fn check_transaction<C: AsyncConnection>(connection: &mut C) -> Result<(), WriteError> {
    let status = C::TransactionManager::transaction_manager_status_mut(connection);
    if matches!(status.transaction_depth(), Ok(Some(_))) {
        return Ok(());
    }
    let reason = "no transaction is open on this connection; call `write_in` in the closure of `transaction`";
    Err(WriteError::Store(refusal(reason)))
}

async fn run<C: AsyncConnection>(connection: &mut C, insert: &Insert, sql: &str) -> Result<(), WriteError> {
    let ran = connection.batch_execute(sql).await;
    ran.map_err(|error| fault::failed(insert, &[], error))
}

async fn write_chunks<C>(connection: &mut C, insert: &Insert, events: &[Event]) -> Result<(), WriteError>
where
    C: AsyncConnection,
    C::Backend: Dialect,
{
    for chunk in chunks(events) {
        let written = Rows::new(insert, chunk).execute(connection).await;
        written.map_err(|error| fault::failed(insert, chunk, error))?;
    }
    Ok(())
}
