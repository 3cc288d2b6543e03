//! One suite of promises for all stores: every line of the store contracts is a case here.
//!
//! A store's test file implements [`StoreHarness`] and hands a fresh one to each case:
//!
//! ```text
//! pillarbox_testkit::conformance!(SqliteHarness::fresh().await);
//! ```
//!
//! A store that has owners implements [`OwnershipHarness`] too, and [`ownership_conformance!`](crate::ownership_conformance)
//! does the same with the cases about them.
//!
//! No case sleeps: a lease of zero length has ended when it begins, and due times lie in the past or far ahead.

#![expect(clippy::unwrap_used, reason = "cases are tests")]

pub mod births;
pub mod envelopes;
pub mod fences;
pub mod handlers;
pub mod history;
pub mod leases;
pub mod operations;
pub mod outlines;
pub mod ownership;
pub mod ownership_asides;
pub mod ownership_census;
pub mod ownership_leases;
pub mod ownership_members;
pub mod ownership_modes;
pub mod ownership_outcomes;
pub mod ownership_parking;
pub mod ownership_pauses;
pub mod ownership_reads;
pub mod ownership_revisions;
pub mod pauses;
pub mod purges;
pub mod read_backs;
pub mod revisions;
pub mod settlements;
mod steps;
mod suite;
pub mod takes;
pub mod wake_ups;
pub mod writes;

use std::future::Future;
use std::sync::Arc;

use pillarbox::store::{Administration, TxStore, WakeUp};

pub use ownership::OwnershipHarness;
pub use steps::{
    LONG, NONE, birth, bury, claim, claim_one, claim_one_for, insert, order_placed,
    order_placed_available_at, owner, settle, settle_all, stored, take, try_settle, unused_token, within,
    write, write_born,
};

/// A transaction that the user's own driver opened.
pub type Foreign<H> = <<H as StoreHarness>::Store as TxStore>::Foreign<'static>;

/// A connection of the store under test.
pub type Connection<H> = <<H as StoreHarness>::Store as TxStore>::Connection;

/// A store under test, and what the cases need beyond its contracts.
///
/// # Contract
/// A harness is made for one case: its store is empty and nobody else uses it.
pub trait StoreHarness: Send + Sync {
    /// The store.
    type Store: TxStore + Administration + WakeUp;

    /// A point in a transaction that can be gone back to.
    type Savepoint: Send;

    /// The store, the same one every time.
    fn store(&self) -> &Arc<Self::Store>;

    /// The same database as another process would open it; `None` if it lives and dies with this one.
    fn elsewhere(&self) -> impl Future<Output = Option<Arc<Self::Store>>> + Send;

    /// Opens a transaction with the user's own driver.
    fn open(&self) -> impl Future<Output = Foreign<Self>> + Send;

    /// Commits it with the user's own driver.
    fn commit(&self, tx: Foreign<Self>) -> impl Future<Output = ()> + Send;

    /// Rolls it back with the user's own driver.
    fn rollback(&self, tx: Foreign<Self>) -> impl Future<Output = ()> + Send;

    /// Marks a point in the transaction of `connection`, past the outbox.
    fn savepoint(&self, connection: &mut Connection<Self>) -> impl Future<Output = Self::Savepoint> + Send;

    /// Goes back to that point, past the outbox.
    fn rollback_to(
        &self,
        connection: &mut Connection<Self>,
        savepoint: Self::Savepoint,
    ) -> impl Future<Output = ()> + Send;

    /// Makes the row of `event_id` undecodable, for example by headers that are not JSON.
    fn corrupt(&self, event_id: &str) -> impl Future<Output = ()> + Send;

    /// Makes the lease of `event_id` end hours from now, as if the database's clock had gone back.
    fn push_lease_into_future(&self, event_id: &str) -> impl Future<Output = ()> + Send;
}
