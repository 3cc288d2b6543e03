//! The SQLite store of Pillarbox: events live in a table beside yours, in one file.
//!
//! ```
//! # async fn example(directory: &std::path::Path) -> Result<(), Box<dyn std::error::Error>> {
//! use pillarbox::Event;
//! use pillarbox::store::{Administration, TxStore};
//! use pillarbox_sqlite::SqliteStore;
//!
//! let store = SqliteStore::connect(directory.join("orders.db").to_string_lossy()).await?;
//! store.migrate().await?;
//!
//! let mut tx = store.begin().await?;
//! store.insert(&mut tx, &[Event::of_json("OrderPlaced", r#"{"id":17}"#)?], None).await?;
//! SqliteStore::commit(tx).await?;
//!
//! assert_eq!(store.stats().await?.pending(), 1);
//! # store.close().await;
//! # Ok(())
//! # }
//! # let directory = tempfile::tempdir().unwrap();
//! # tokio::runtime::Runtime::new().unwrap().block_on(example(directory.path())).unwrap();
//! ```
//!
//! - [`SqliteStore`] is the store; [`SqliteOptions`] says how to open it.
//! - [`SqliteTx`] is a transaction of its own; a `sqlx` transaction of yours will do as well.
//! - [`migrations_sql`] is what [`migrate`](SqliteStore::migrate) does, for tools that run SQL themselves.
//! - [`migrate_to`](SqliteStore::migrate_to) chooses between claims and owned partitions.
//!
//! Databases are kept in WAL mode, and every transaction of the store begins with `BEGIN IMMEDIATE`. Those of
//! one process queue up in the order of their arrival; other processes are waited for up to
//! [`busy_timeout`](SqliteOptions::busy_timeout).
//!
//! Any program can write to the outbox by plain SQL; all columns but these have defaults:
//!
//! ```sql
//! INSERT INTO outbox_event (event_id, event_type, payload) VALUES ('01K…', 'OrderPlaced', '{"id":17}');
//! ```

mod admin;
mod diagnosis;
mod fault;
mod file;
mod lane;
mod membership;
mod migration;
mod mode;
mod options;
mod owned;
mod ownership;
mod row;
mod settle;
mod statements;
mod store;
mod tables;
mod take;
mod tx;
mod watch;

pub use migration::migrations_sql;
pub use options::{SqliteOptions, Synchronous};
pub use pillarbox_sql::Names;
pub use store::SqliteStore;
pub use tx::SqliteTx;
