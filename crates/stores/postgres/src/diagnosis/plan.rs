//! Whether the statement that finds work goes by its index.

use std::sync::Arc;

use pillarbox::store::{Check, Mode, StoreError};
use pillarbox_sql::diagnosis::failed;
use pillarbox_sql::quoted;
use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, Executor, Row};

use crate::PostgresStore;

impl PostgresStore {
    /// Explains the statement that takes, or the one that owners fetch with, as the store's sessions execute it.
    pub(super) async fn plan(&self, mode: Mode) -> Check {
        let (sql, index, what) = match mode {
            Mode::Claims => (&self.inner.statements.claim, "outbox_event_pending", "the take"),
            Mode::Ownership => (&self.inner.statements.fresh, "outbox_event_numbers", "the fetch"),
        };
        let index = format!("{}{index}", self.names().prefix());
        match self.explain(sql.as_str().to_owned()).await {
            Ok(plan) => judge(&plan, &index, what),
            Err(error) => failed("plan", &error),
        }
    }

    async fn explain(&self, sql: String) -> Result<Vec<String>, StoreError> {
        let sql = Arc::<str>::from(sql);
        let explained = self.step(
            |inner| &inner.operating,
            true,
            move |connection| {
                let sql = Arc::clone(&sql);
                Box::pin(async move { explained(connection, &sql).await })
            },
        );
        explained.await
    }
}

/// The plan that every execution of the prepared statement gets. It is explained and not executed.
async fn explained(connection: &mut PgConnection, sql: &str) -> Result<Vec<String>, sqlx::Error> {
    let parameters = (1..).take_while(|n| sql.contains(&format!("${n}"))).map(|_| "NULL").collect::<Vec<_>>();
    connection.execute(AssertSqlSafe(format!("PREPARE pillarbox_examined AS {sql}"))).await?;
    let explain = format!("EXPLAIN (COSTS OFF) EXECUTE pillarbox_examined({})", parameters.join(", "));
    let plan = sqlx::raw_sql(AssertSqlSafe(explain)).fetch_all(&mut *connection).await?;
    connection.execute("DEALLOCATE pillarbox_examined").await?;
    plan.iter().map(|row| row.try_get(0)).collect()
}

fn judge(plan: &[String], index: &str, what: &str) -> Check {
    let by_index = format!(" using {} on ", quoted(index));
    if plan.iter().any(|line| line.contains(&by_index)) {
        return Check::ok("plan", format!("{what} goes by `{index}`"));
    }
    // Reading the sequence is no reading of the table.
    let reads = |line: &&String| line.contains("outbox_event") && !line.contains("outbox_event_seq_seq");
    let scans = plan.iter().filter(reads).filter(|line| line.contains("Scan"));
    let line = scans.clone().find(|line| line.contains("Seq Scan")).or_else(|| scans.clone().next());
    let line = line.map_or("nothing", |line| line.trim().trim_start_matches("->").trim());
    Check::problem("plan", format!("{what} does not go by `{index}`, but: {line}"))
        .remedy("make the index anew (see `indexes`), and run `ANALYZE` on the table")
}

#[cfg(test)]
mod tests {
    use pillarbox::store::Health;

    use super::*;

    fn plan(line: &str) -> Check {
        let plan = ["Limit".to_owned(), format!("  ->  {line}")];
        judge(&plan, "outbox_event_pending", "the take")
    }

    #[test]
    fn plan_that_leaves_the_index_out_is_a_problem() {
        for good in [
            "Index Scan using outbox_event_pending on outbox_event event",
            "Index Only Scan using outbox_event_pending on outbox_event",
        ] {
            assert_eq!(plan(good).health, Health::Ok, "{good}");
        }
        for bad in ["Seq Scan on outbox_event", "Index Scan using outbox_event_pkey on outbox_event"] {
            let check = plan(bad);
            assert_eq!(check.health, Health::Problem);
            assert!(check.found.ends_with(bad), "{check}");
        }
    }
}
