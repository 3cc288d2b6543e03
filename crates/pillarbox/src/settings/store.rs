//! The options of a store that settings can have.

use std::fmt;
use std::time::Duration;

/// What a file or the environment says about the store; see [`Settings::store`](super::Settings::store).
///
/// What is `None` was not said, and the store's own default counts.
#[derive(Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoreSettings {
    /// Where the database is. It may have a password in it, and is shown nowhere.
    pub url: Option<String>,
    /// A file that has that in it, in place of it; [`url`](Self::url) is `None` then.
    pub url_file: Option<String>,
    /// The schema of the outbox tables.
    pub schema: Option<String>,
    /// What stands before the names of all tables.
    pub prefix: Option<String>,
    /// Whether tables are created, and brought up to date, before the outbox is started.
    pub migrate: bool,
    /// The most connections for transactions of yours.
    pub max_connections: Option<u32>,
    /// Whether a SQLite file that does not exist is created.
    pub create_if_missing: Option<bool>,
    /// Whether events that other processes commit are noticed before the next poll.
    pub wake_up: Option<bool>,
    /// How long the store waits for what others have locked.
    pub lock_timeout: Option<Duration>,
    /// How long transactions that write events stay open, which only stores need to be told that cannot see it: those for
    /// MySQL and MariaDB.
    pub longest_transaction: Option<Duration>,
}

impl fmt::Debug for StoreSettings {
    /// Leaves out the URL, which may have a password in it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreSettings")
            .field("url_file", &self.url_file)
            .field("schema", &self.schema)
            .field("prefix", &self.prefix)
            .field("migrate", &self.migrate)
            .field("max_connections", &self.max_connections)
            .field("create_if_missing", &self.create_if_missing)
            .field("wake_up", &self.wake_up)
            .field("lock_timeout", &self.lock_timeout)
            .field("longest_transaction", &self.longest_transaction)
            .finish_non_exhaustive()
    }
}
