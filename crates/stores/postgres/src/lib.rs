//! The PostgreSQL store of Pillarbox: events live in a table beside yours.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use pillarbox::Event;
//! use pillarbox::store::{Administration, TxStore};
//! use pillarbox_postgres::PostgresStore;
//!
//! let store = PostgresStore::connect("postgres://shop@localhost/shop").await?;
//! store.migrate().await?;
//!
//! let mut tx = store.begin().await?;
//! store.insert(&mut tx, &[Event::of_json("OrderPlaced", r#"{"id":17}"#)?], None).await?;
//! PostgresStore::commit(tx).await?;
//!
//! assert_eq!(store.stats().await?.pending(), 1);
//! # Ok(())
//! # }
//! ```
//!
//! - [`PostgresStore`] is the store; [`PostgresOptions`] says how to connect.
//! - [`PostgresTx`] is a transaction of its own; a `sqlx` transaction of yours will do as well.
//! - [`migrations_sql`] is what [`migrate`](PostgresStore::migrate) does, for tools that run SQL themselves.
//!
//! PostgreSQL 15 or newer. Several processes may take from one table: claims skip what others have locked, every
//! lease is measured by the database's clock, and events that one process commits wake the others by NOTIFY. Or each
//! process owns some of the partitions and reads from them ([`migrate_to`](PostgresStore::migrate_to) gives a table
//! this mode): then reading writes nothing, and what is done is never read over, whoever holds a snapshot open.
//!
//! Any program can write to the outbox by plain SQL; all columns but these have defaults:
//!
//! ```sql
//! INSERT INTO outbox_event (event_id, event_type, payload) VALUES ('01K…', 'OrderPlaced', '{"id":17}');
//! ```

mod admin;
mod closed;
mod diagnosis;
mod fault;
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
mod take;
mod time;
mod tx;
mod wake;

pub use migration::migrations_sql;
pub use options::PostgresOptions;
pub use pillarbox_sql::Names;
pub use store::PostgresStore;
pub use tx::PostgresTx;

#[cfg(doctest)]
mod guide {
    //! The programs on the guide's page, as tests.

    #[doc = include_str!("../../../../docs/guide/postgresql.md")]
    struct PostgreSql;
}
