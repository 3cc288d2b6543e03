//! Whether the statement that finds work goes by its index.

use pillarbox::store::{Check, Mode};
use pillarbox_sql::diagnosis::failed;
use sqlx::{AssertSqlSafe, Row};

use crate::SqliteStore;
use crate::fault;

impl SqliteStore {
    /// Explains the statement that takes, or the one that owners fetch with. It names its index, so that it fails without.
    pub(super) async fn plan(&self, mode: Mode) -> Check {
        let (sql, index, what) = match mode {
            Mode::Claims => (&self.inner.statements.select, "outbox_event_pending", "the take"),
            Mode::Ownership => (&self.inner.statements.fetch, "outbox_event_fresh", "the fetch"),
        };
        let index = format!("{}{index}", self.inner.names.prefix());
        let explain = sqlx::query(AssertSqlSafe(format!("EXPLAIN QUERY PLAN {}", sql.as_str())));
        let plan = self.read(move |connection| {
            Box::pin(async move {
                match explain.fetch_all(connection).await {
                    Ok(rows) => rows
                        .iter()
                        .map(|row| row.try_get("detail"))
                        .collect::<Result<Vec<String>, _>>()
                        .map(Some),
                    Err(error) if fault::is_missing_index(&error) => Ok(None),
                    Err(error) => Err(error),
                }
            })
        });
        match plan.await {
            Ok(plan) => judge(plan.as_deref(), &index, what, mode),
            Err(error) => failed("plan", &error),
        }
    }
}

fn judge(plan: Option<&[String]>, index: &str, what: &str, mode: Mode) -> Check {
    let uses = |line: &String| line.contains(&format!(" INDEX {index} "));
    match plan {
        Some(plan) if plan.iter().any(uses) => Check::ok("plan", format!("{what} goes by `{index}`")),
        Some(plan) => {
            Check::problem("plan", format!("{what} does not go by `{index}`, but: {}", plan.join(", ")))
        }
        None => Check::problem("plan", format!("{what} fails: an index that it names is not there"))
            .remedy(format!("run `pillarbox migrate --mode {mode}`")),
    }
}
