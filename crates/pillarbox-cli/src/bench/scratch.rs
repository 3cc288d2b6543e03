//! The tables of a bench: made, and dropped again.

use std::hash::{BuildHasher, RandomState};

use anyhow::Context;
use pillarbox::store::{Mode, StoreError};
use pillarbox_any::{AnyStore, Kind};
use tokio::task::JoinHandle;

use super::pulse;
use crate::database::Database;

/// What the names of all tables of benches begin with, and the digits that follow, so that each bench has its own.
const BEGIN: &str = "pillarbox_bench_";
const DIGITS: usize = 8;

/// An outbox, and a plain table beside it, that live as long as the bench.
pub(super) struct Scratch {
    /// The outbox of the bench.
    pub(super) store: AnyStore,
    /// A handle that outlives it.
    remover: AnyStore,
    prefix: String,
    /// Says that the bench is alive, as soon as it has tables.
    pulse: Option<JoinHandle<()>>,
}

impl Scratch {
    /// Makes them in the database that `remover` is connected to.
    pub(super) async fn make(database: &Database, remover: &AnyStore, mode: Mode) -> anyhow::Result<Self> {
        let random = RandomState::new().hash_one(std::process::id());
        let prefix = format!("{BEGIN}{:08x}_", random as u32);
        let store = database.with_prefix(&prefix).reach().await?;
        let mut scratch = Self { store, remover: remover.clone(), prefix, pulse: None };
        match scratch.fill(mode).await {
            Ok(()) => Ok(scratch),
            Err(error) => {
                scratch.remove().await?;
                Err(error).context("the tables of the bench could not be made")
            }
        }
    }

    async fn fill(&mut self, mode: Mode) -> Result<(), StoreError> {
        self.store.migrate_to(mode).await?;
        self.pulse = Some(pulse::begin(&self.store).await?);
        // A payload may be longer than a TEXT of MySQL.
        let text = if self.store.kind() == Kind::MySql { "LONGTEXT" } else { "TEXT" };
        let create =
            format!("CREATE TABLE {} (number BIGINT PRIMARY KEY, payload {text} NOT NULL)", self.plain());
        self.store.execute(create).await
    }

    /// The name of the plain table.
    pub(super) fn plain(&self) -> String {
        self.store.beside(&format!("{}outbox_plain", self.prefix))
    }

    /// Drops them.
    pub(super) async fn remove(self) -> anyhow::Result<()> {
        if let Some(pulse) = self.pulse {
            pulse.abort();
        }
        self.store.close().await;
        let removed = self.remover.remove(&self.prefix).await.map(drop);
        removed.with_context(|| {
            format!(
                "the tables `{}…` of the bench could not be dropped; `pillarbox bench --clean` tries again",
                self.prefix
            )
        })
    }
}

/// The prefixes of tables that benches have left behind, or are still using.
pub(super) async fn left_over(store: &AnyStore) -> Result<Vec<String>, StoreError> {
    let is_ours = |prefix: &String| {
        let digits = prefix.strip_prefix(BEGIN).and_then(|rest| rest.strip_suffix('_'));
        digits.is_some_and(|digits| {
            digits.len() == DIGITS && digits.bytes().all(|digit| digit.is_ascii_hexdigit())
        })
    };
    let mut prefixes = store.prefixes(BEGIN).await?;
    prefixes.retain(is_ours);
    Ok(prefixes)
}

/// Whether a bench with this prefix is alive. Tables that were made in part, or by another version, have nobody.
pub(super) async fn is_alive(database: &Database, prefix: &str) -> anyhow::Result<bool> {
    let store = match database.with_prefix(prefix).open().await {
        Ok(opened) => opened.store,
        Err(error) => {
            return match error.downcast_ref() {
                Some(
                    StoreError::NotMigrated | StoreError::OlderSchema { .. } | StoreError::NewerSchema { .. },
                ) => Ok(false),
                _ => Err(error),
            };
        }
    };
    let is_alive = pulse::is_felt(&store).await;
    store.close().await;
    Ok(is_alive?)
}
