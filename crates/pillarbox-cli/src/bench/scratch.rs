//! The tables of a bench: made, and dropped again.

use std::hash::{BuildHasher, RandomState};

use anyhow::Context;
use pillarbox::store::{Administration, Mode, StoreError};
use pillarbox_any::{AnyStore, Kind};

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
}

impl Scratch {
    /// Makes them in the database that `remover` is connected to.
    pub(super) async fn make(database: &Database, remover: &AnyStore, mode: Mode) -> anyhow::Result<Self> {
        let random = RandomState::new().hash_one(std::process::id());
        let prefix = format!("{BEGIN}{:08x}_", random as u32);
        let store = database.with_prefix(&prefix).reach().await?;
        let scratch = Self { store, remover: remover.clone(), prefix };
        match scratch.fill(mode).await {
            Ok(()) => Ok(scratch),
            Err(error) => {
                scratch.remove().await?;
                Err(error).context("the tables of the bench could not be made")
            }
        }
    }

    async fn fill(&self, mode: Mode) -> Result<(), StoreError> {
        self.store.migrate_to(mode).await?;
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

/// Whether a bench with this prefix takes part in its outbox. Tables that were made in part have nobody.
pub(super) async fn is_alive(database: &Database, prefix: &str) -> bool {
    let Ok(opened) = database.with_prefix(prefix).open().await else { return false };
    let census = opened.store.census().await;
    opened.store.close().await;
    census.is_ok_and(|census| census.alive().next().is_some())
}
