//! The mode of the outbox, and its change.

use std::sync::Arc;

use pillarbox::store::{Mode, StoreError};
use pillarbox_sql::members;
use sqlx::sqlite::SqliteConnection;

use crate::SqliteStore;
use crate::owned;
use crate::statements::Statements;
use crate::store::Inner;

impl SqliteStore {
    /// Does what [`migrate`](Self::migrate) does, makes `mode` the mode of the outbox with all that belongs to it, and
    /// returns the version.
    ///
    /// An instance that [joins](pillarbox::store::Ownership::join) changes the mode too; this is for operators, who want
    /// to choose when: the indexes of the mode are built in one transaction, and nobody writes to the file meanwhile.
    /// Repeated, it makes indexes anew that somebody dropped.
    ///
    /// Fails with [`StoreError::Config`], naming them, if instances of the other mode are alive.
    pub async fn migrate_to(&self, mode: Mode) -> Result<u32, StoreError> {
        let version = self.migrate().await?;
        let inner = Arc::clone(&self.inner);
        let changed =
            self.write(move |connection| Box::pin(async move { change(connection, &inner, mode).await }));
        changed.await?.map(|()| version)
    }

    /// The mode that is stored.
    pub(crate) async fn mode(&self) -> Result<Mode, StoreError> {
        let inner = Arc::clone(&self.inner);
        let mode =
            self.read(move |connection| Box::pin(async move { stored(connection, &inner.statements).await }));
        mode.await?
    }
}

/// Makes `mode` the mode, unless instances of the other are alive.
async fn change(
    connection: &mut SqliteConnection,
    inner: &Inner,
    mode: Mode,
) -> Result<Result<(), StoreError>, sqlx::Error> {
    // Nobody takes the place of anybody here.
    let query = sqlx::query_scalar(inner.statements.of_other_mode.clone());
    let others: Vec<String> =
        query.bind(mode.to_string()).bind(false).bind("").bind("").fetch_all(&mut *connection).await?;
    if !others.is_empty() {
        return Ok(Err(members::others_alive(mode, &others)));
    }
    switch(connection, inner, mode).await
}

/// Makes `mode` the mode, and ends all that was held in the other if it was that.
///
/// All of it is one transaction, so the indexes of a mode are there if, and only if, it is the mode: a statement that
/// names one of them needs no other check.
pub(crate) async fn switch(
    connection: &mut SqliteConnection,
    inner: &Inner,
    mode: Mode,
) -> Result<Result<(), StoreError>, sqlx::Error> {
    let statements = &inner.statements;
    if mode == Mode::Ownership && !gives_numbers_once(connection, statements).await? {
        return Ok(Err(reuses_numbers(inner)));
    }
    let before = match stored(connection, statements).await? {
        Ok(before) => before,
        Err(unknown) => return Ok(Err(unknown)),
    };
    if before != mode {
        sqlx::raw_sql(statements.end_ownership.clone()).execute(&mut *connection).await?;
        sqlx::query(statements.end_leases.clone()).execute(&mut *connection).await?;
        sqlx::query(statements.set_mode.clone()).bind(mode.to_string()).execute(&mut *connection).await?;
        tracing::info!(path = %inner.path.display(), from = %before, to = %mode, "changed the mode of the outbox");
    }
    match mode {
        Mode::Claims => {
            sqlx::raw_sql(statements.index_claims.clone()).execute(connection).await?;
        }
        Mode::Ownership => {
            sqlx::raw_sql(statements.index_unplaced.clone()).execute(&mut *connection).await?;
            // Before there are indexes that would have to follow.
            while owned::adopt(connection, statements).await? {}
            sqlx::raw_sql(statements.index_ownership.clone()).execute(connection).await?;
        }
    }
    Ok(Ok(()))
}

/// The mode that is stored, if this program knows it.
pub(crate) async fn stored(
    connection: &mut SqliteConnection,
    statements: &Statements,
) -> Result<Result<Mode, StoreError>, sqlx::Error> {
    let stored: Option<String> =
        sqlx::query_scalar(statements.mode.clone()).fetch_optional(connection).await?;
    Ok(members::mode(stored.as_deref()))
}

/// Whether no number is given twice, even if its row was deleted: otherwise an event could appear below a floor.
async fn gives_numbers_once(
    connection: &mut SqliteConnection,
    statements: &Statements,
) -> Result<bool, sqlx::Error> {
    let sql: Option<String> =
        sqlx::query_scalar(statements.definition.clone()).fetch_optional(connection).await?;
    Ok(sql.is_some_and(|sql| sql.to_ascii_uppercase().contains("AUTOINCREMENT")))
}

fn reuses_numbers(inner: &Inner) -> StoreError {
    StoreError::Config(format!(
        "the column `seq` of `{}` is not `AUTOINCREMENT`, so that numbers of deleted events are given again; make the \
         table anew by `pillarbox migrate`, or stay in the mode `{}`",
        inner.names.table("outbox_event"),
        Mode::Claims,
    ))
}
