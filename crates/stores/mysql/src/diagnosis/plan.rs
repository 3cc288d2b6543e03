//! Whether the statement that finds work goes by its index.

use pillarbox::store::{Check, Mode, StoreError};
use pillarbox_sql::diagnosis::failed;
use sqlx::mysql::MySqlRow;
use sqlx::{AssertSqlSafe, Row};

use crate::MySqlStore;
use crate::fault;
use crate::statements::MySqlQuery;
use crate::store::Inner;

impl MySqlStore {
    /// Explains the statement that takes, or the one that owners fetch with.
    pub(super) async fn plan(&self, mode: Mode) -> Check {
        let (index, what) = match mode {
            Mode::Claims => ("outbox_event_pending", "the take"),
            Mode::Ownership => ("outbox_event_fresh", "the fetch"),
        };
        let index = format!("{}{index}", self.names().prefix());
        let rows = self.look(move |inner| explain(inner, mode)).await;
        let keys = rows.and_then(|rows| {
            let keys = rows.iter().filter_map(|row| key(row).transpose()).collect::<Result<Vec<String>, _>>();
            keys.map_err(|error| self.inner.line.place.store(error))
        });
        judge(keys, &index, what, mode)
    }
}

/// The statement with some values, for it is explained and not executed. A limit of 0 would find no need of an index.
fn explain(inner: &Inner, mode: Mode) -> MySqlQuery<'static> {
    let sql = match mode {
        Mode::Claims => inner.statements.select.clone(),
        Mode::Ownership => inner.statements.fetch.of(1).0,
    };
    let places = sql.as_str().matches('?').count();
    let query = sqlx::query(AssertSqlSafe(format!("EXPLAIN FORMAT = TRADITIONAL {}", sql.as_str())));
    match mode {
        Mode::Claims => (0..places).fold(query, |query, _| query.bind(1_i64)),
        // The last is the list of what is in flight.
        Mode::Ownership => (1..places).fold(query, |query, _| query.bind(1_i64)).bind("[]"),
    }
}

/// The index by which a row of the plan finds what it reads.
fn key(row: &MySqlRow) -> Result<Option<String>, sqlx::Error> {
    let bytes: Option<Vec<u8>> = row.try_get("key")?;
    Ok(bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
}

fn judge(keys: Result<Vec<String>, StoreError>, index: &str, what: &str, mode: Mode) -> Check {
    let remedy = format!("run `pillarbox migrate --mode {mode}`");
    match keys {
        Ok(keys) if keys.iter().any(|key| key == index) => {
            Check::ok("plan", format!("{what} goes by `{index}`"))
        }
        Ok(keys) => {
            let keys =
                if keys.is_empty() { "no index".to_owned() } else { format!("`{}`", keys.join("`, `")) };
            Check::problem("plan", format!("{what} does not go by `{index}`, but by {keys}")).remedy(remedy)
        }
        Err(error) if fault::is_missing_index(&error) => {
            Check::problem("plan", format!("{what} fails: there is no index `{index}`")).remedy(remedy)
        }
        Err(error) => failed("plan", &error),
    }
}
