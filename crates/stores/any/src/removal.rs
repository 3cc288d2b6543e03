//! Outboxes that are made for a moment, as by a bench, and removed again.

use std::collections::BTreeSet;

use pillarbox::store::StoreError;
use pillarbox_sql::{quoted, refusal, to_its_end};
use sqlx::AssertSqlSafe;

use crate::backend::on_each;
use crate::{AnyStore, Kind};

/// What follows a prefix in every name of ours.
const OURS: &str = "outbox_";

impl AnyStore {
    /// Executes statements of yours outside of any transaction: for tables of your own beside the outbox.
    pub async fn execute(&self, sql: impl Into<String>) -> Result<(), StoreError> {
        let sql: String = sql.into();
        on_each!(AnyStore, self, store => {
            let pool = store.pool().clone();
            to_its_end(async move {
                sqlx::raw_sql(AssertSqlSafe(sql)).execute(&pool).await.map(drop).map_err(failed)
            })
            .await
        })
    }

    /// The full name of a table in the schema of the outbox, as it stands in SQL.
    pub fn beside(&self, table: &str) -> String {
        match self.schema() {
            Some(schema) => format!("{}.{}", self.in_sql(&schema), self.in_sql(table)),
            None => self.in_sql(table),
        }
    }

    /// Drops all tables, and functions of theirs, whose names begin with `prefix` and `outbox_`, with all events in
    /// them, and returns how many tables there were.
    ///
    /// It need not be the prefix of this store, only in the same schema; an empty one is refused. Nobody may be using
    /// them.
    pub async fn remove(&self, prefix: &str) -> Result<usize, StoreError> {
        if prefix.is_empty() {
            return Err(refusal("an outbox without a prefix is not removed; drop its tables yourself"));
        }
        let found = self.beginning_with(&format!("{prefix}{OURS}")).await?;
        for (removal, name, arguments) in &found {
            self.execute(format!("{removal}{}{arguments}", self.beside(name))).await?;
        }
        Ok(found.iter().filter(|(.., arguments)| arguments.is_empty()).count())
    }

    /// The prefixes of outboxes in this schema, whole or in parts, that begin with `start`.
    pub async fn prefixes(&self, start: &str) -> Result<Vec<String>, StoreError> {
        let found = self.beginning_with(start).await?;
        let prefixes =
            found.iter().filter_map(|(_, name, _)| name.find(OURS).map(|at| name[..at].to_owned()));
        Ok(prefixes.collect::<BTreeSet<_>>().into_iter().collect())
    }

    /// What begins so, with what removes it: the words before the name, the name, and what follows it.
    async fn beginning_with(&self, start: &str) -> Result<Vec<(String, String, String)>, StoreError> {
        let select = match self.kind() {
            Kind::Sqlite => include_str!("removal/sqlite.sql"),
            Kind::Postgres => include_str!("removal/postgres.sql"),
            Kind::MySql => include_str!("removal/mysql.sql"),
        };
        let (start, schema) = (start.to_owned(), self.schema());
        on_each!(AnyStore, self, store => {
            let pool = store.pool().clone();
            to_its_end(async move {
                use sqlx::Row;
                let look = sqlx::query(select).bind(start).bind(schema).persistent(false);
                let rows = look.fetch_all(&pool).await.map_err(failed)?;
                rows.iter()
                    .map(|row| Ok((row.try_get(0)?, row.try_get(1)?, row.try_get(2)?)))
                    .collect::<Result<Vec<_>, _>>()
                    .map_err(failed)
            })
            .await
        })
    }

    fn in_sql(&self, name: &str) -> String {
        match self.kind() {
            Kind::Postgres => quoted(name).into_owned(),
            Kind::MySql => format!("`{}`", name.replace('`', "``")),
            Kind::Sqlite => name.to_owned(),
        }
    }
}

fn failed(error: sqlx::Error) -> StoreError {
    match error {
        sqlx::Error::Database(_) => {
            StoreError::Refused { reason: "a statement failed".into(), source: Some(Box::new(error)) }
        }
        _ => StoreError::Unavailable {
            reason: "a statement could not be sent".into(),
            source: Some(Box::new(error)),
        },
    }
}
