//! Writing inside the caller's transaction.

use std::time::Duration;

use super::{CommitError, EventStore, InsertError, Owner, StoreError, Token};
use crate::Event;
use crate::runtime::BoxFuture;

/// The lease that rows are born with, when a hot queue stands behind their writer.
#[derive(Clone, Debug)]
pub struct Birth {
    /// Who will deliver them.
    pub owner: Owner,
    /// What the marks on the rows are made of: each has [its own](Token::of_event).
    pub token: Token,
    /// How long they are leased from the statement on.
    pub lease_for: Duration,
}

/// A store that can write events inside a transaction.
///
/// # Contract
/// - [`insert`](TxStore::insert) uses the given connection and nothing else; it never begins, commits or
///   rolls back. It is one statement per 500 events or 4 MiB of payload, whichever comes first.
/// - Rows appear with status 0, no attempts, and `created_at` by the database's clock at the statement. With
///   a [`Birth`], every row whose event has no delay of its own is leased under
///   [a token of its own](Token::of_event), `starts` is 1; otherwise it is available when its schedule says.
/// - [`begin`](TxStore::begin), [`commit`](TxStore::commit) and [`rollback`](TxStore::rollback) may be
///   spawned: they own what they need.
/// - Dropping [`Tx`](TxStore::Tx) rolls back.
pub trait TxStore: EventStore + Sized {
    /// An open connection, as the user's statements need it.
    type Connection: Send + 'static;
    /// A transaction of ours that is open.
    type Tx: Send + 'static;
    /// A transaction of the user's own driver, on which events can be written too.
    type Foreign<'c>: Send;

    /// Opens a transaction that may write.
    fn begin(&self) -> BoxFuture<'static, Result<Self::Tx, StoreError>>;

    /// The connection of a transaction of ours.
    fn connection(tx: &Self::Tx) -> &Self::Connection;

    /// The connection of a transaction of ours, to execute statements on.
    fn connection_mut(tx: &mut Self::Tx) -> &mut Self::Connection;

    /// The connection of a transaction of the user's own driver.
    fn foreign_connection<'a>(tx: &'a mut Self::Foreign<'_>) -> &'a mut Self::Connection;

    /// Inserts events.
    fn insert<'a>(
        &'a self,
        connection: &'a mut Self::Connection,
        events: &'a [Event],
        birth: Option<&'a Birth>,
    ) -> BoxFuture<'a, Result<(), InsertError>>;

    /// Commits.
    fn commit(tx: Self::Tx) -> BoxFuture<'static, Result<(), CommitError>>;

    /// Rolls back.
    fn rollback(tx: Self::Tx) -> BoxFuture<'static, Result<(), StoreError>>;
}
