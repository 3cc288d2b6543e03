//! The MySQL and MariaDB store of Pillarbox: events live in a table beside yours.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use pillarbox::Event;
//! use pillarbox::store::{Administration, TxStore};
//! use pillarbox_mysql::MySqlStore;
//!
//! let store = MySqlStore::connect("mysql://app:secret@localhost:3306/shop").await?;
//! store.migrate().await?;
//!
//! let mut tx = store.begin().await?;
//! sqlx::query("INSERT INTO orders (id) VALUES (?)").bind(17).execute(&mut *tx).await?;
//! store.insert(&mut tx, &[Event::of_json("OrderPlaced", r#"{"id":17}"#)?], None).await?;
//! MySqlStore::commit(tx).await?;
//!
//! assert_eq!(store.stats().await?.pending(), 1);
//! # store.close().await;
//! # Ok(())
//! # }
//! ```
//!
//! - [`MySqlStore`] is the store; [`MySqlOptions`] says how to connect.
//! - [`MySqlTx`] is a transaction of its own; a `sqlx` transaction of yours will do as well.
//! - [`migrations_sql`] prints what [`MySqlStore::migrate`] does.
//!
//! MySQL from 8.0.17 and MariaDB from 10.6 on. The store's own connections and the transactions that it begins
//! run at READ COMMITTED, whatever the server's default is. Nothing tells a process of what others commit: it
//! finds their events when it polls.
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
mod tables;
mod take;
mod time;
mod tx;

pub use migration::migrations_sql;
pub use options::MySqlOptions;
pub use store::MySqlStore;
pub use tx::MySqlTx;

#[cfg(doctest)]
mod guide {
    //! The programs on the guide's page, as tests.

    #[doc = include_str!("../../../../docs/guide/mysql.md")]
    struct MySql;
}
