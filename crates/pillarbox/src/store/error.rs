//! What can go wrong in a store, by what the caller can do about it.

/// The source of an error: whatever the driver says.
type Source = Box<dyn std::error::Error + Send + Sync>;

/// A store could not do what it was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The database cannot be reached, is busy or lost the connection. Trying again later helps; whether the
    /// call took effect is not known.
    #[error("the database is not available: {reason}")]
    Unavailable {
        /// What was tried, and what to do about it if we know.
        reason: String,
        /// What the driver says.
        #[source]
        source: Option<Source>,
    },
    /// The database refuses this very call; nothing of it was applied. Trying the same again does not help.
    #[error("the database refused: {reason}")]
    Refused {
        /// What was refused.
        reason: String,
        /// What the driver says.
        #[source]
        source: Option<Source>,
    },
    /// Another transaction, of a person or a program, has locked rows that the call would change; nothing of it
    /// was applied. The rest can be done now, and these when that transaction has ended.
    #[error("another transaction has locked {} of the rows; end it, or wait for its end", .numbers.len())]
    Locked {
        /// The numbers of the rows.
        numbers: Vec<i64>,
    },
    /// The outbox tables are missing.
    #[error("there is no outbox in this database; run `pillarbox migrate` or call `migrate()`")]
    NotMigrated,
    /// The outbox tables are older than this program.
    #[error("the outbox table is at version {found}, this build needs {needed}; run `pillarbox migrate`")]
    OlderSchema {
        /// The version of the tables.
        found: u32,
        /// The version that this program needs.
        needed: u32,
    },
    /// The outbox tables are newer than this program.
    #[error(
        "the outbox table is at version {found}, this build knows versions up to {known}; use a newer build"
    )]
    NewerSchema {
        /// The version of the tables.
        found: u32,
        /// The newest version that this program knows.
        known: u32,
    },
    /// A setting of the store makes no sense.
    #[error("{0}")]
    Config(String),
}

impl StoreError {
    /// The database cannot do it now.
    pub fn unavailable(reason: impl Into<String>) -> Self {
        Self::Unavailable { reason: reason.into(), source: None }
    }

    /// Whether the same call may succeed later.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Unavailable { .. } | Self::Locked { .. })
    }
}

/// Events could not be inserted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InsertError {
    /// An event with this id is in the table already, or twice in this call. Nothing was inserted.
    #[error("an event with the id `{id}` exists already")]
    DuplicateId {
        /// The repeated id.
        id: String,
    },
    /// The statement failed.
    #[error("the event could not be inserted")]
    Store(#[source] StoreError),
}

/// A commit did not succeed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CommitError {
    /// Nothing was committed.
    #[error("the transaction was rolled back: {reason}")]
    RolledBack {
        /// Why.
        reason: String,
        /// What the driver says.
        #[source]
        source: Option<Source>,
    },
    /// The answer was lost: it may have been committed or not. If it was, its events will be delivered.
    #[error("whether the transaction was committed is not known: {reason}")]
    Unknown {
        /// Why.
        reason: String,
        /// What the driver says.
        #[source]
        source: Option<Source>,
    },
}
