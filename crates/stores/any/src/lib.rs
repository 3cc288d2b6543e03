//! A Pillarbox store that is chosen by a URL, for programs that learn only at run time where their outbox is.
//!
//! ```
//! # async fn example(directory: &std::path::Path) -> Result<(), Box<dyn std::error::Error>> {
//! use pillarbox::{Delivery, ListenerError, Outbox};
//! use pillarbox_any::AnyStore;
//!
//! # let orders = format!("sqlite:{}", directory.join("orders.db").display());
//! # let url = move |_: &str| Ok::<_, std::env::VarError>(orders);
//! # /*
//! let url = std::env::var;
//! # */
//! let store = AnyStore::connect(url("DATABASE_URL")?).await?;
//! store.migrate().await?;
//!
//! let outbox = Outbox::builder(store)
//!     .on("OrderPlaced", |order: Delivery| async move {
//!         println!("{} was placed", order.id());
//!         Ok::<(), ListenerError>(())
//!     })
//!     .start()?;
//!
//! let mut tx = outbox.begin().await?;
//! outbox.write_json(&mut tx, "OrderPlaced", r#"{"id":17}"#).await?;
//! tx.commit().await?;
//! # outbox.close().await;
//! # Ok(())
//! # }
//! # #[cfg(feature = "sqlite")]
//! # {
//! # let directory = tempfile::tempdir().unwrap();
//! # tokio::runtime::Runtime::new().unwrap().block_on(example(directory.path())).unwrap();
//! # }
//! ```
//!
//! | URL | database | feature |
//! |---|---|---|
//! | `sqlite:PATH`, a plain path | SQLite | `sqlite` |
//! | `postgres://…`, `postgresql://…` | PostgreSQL | `postgres` |
//! | `mysql://…`, `mariadb://…` | MySQL, MariaDB | `mysql` |
//!
//! All features are on by default.
//!
//! - [`AnyStore`] is one of the three stores; [`AnyOptions`] are the options that they share. For those that only
//!   one of them has, make that one and convert it: `AnyStore::from(store)`.
//! - [`AnyTx`] is a transaction on one of them. Statements of yours run on what is in it.
//! - [`Kind`] says which database a URL is about, and prints its migrations.
//!
//! A service that knows its database is better served by that database's own store: its transactions are the
//! driver's.

mod backend;
mod kind;
mod options;
mod removal;
mod store;
mod tx;

pub use backend::{AnyStore, AnyTx, is_missing_database, kinds};
pub use kind::Kind;
pub use options::AnyOptions;
pub use tx::Open;

#[cfg(doctest)]
mod guide {
    //! The programs on the guide's page, as tests.

    #[doc = include_str!("../../../../docs/guide/doctor.md")]
    struct Doctor;
}
