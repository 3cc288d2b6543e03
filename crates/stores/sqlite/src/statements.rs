//! The SQL of the store, with the names of its tables filled in.

use std::sync::Arc;

use sqlx::{AssertSqlSafe, SqlSafeStr, SqlStr};

macro_rules! statements {
    ($($name:ident = $file:literal,)*) => {
        /// Every statement on the outbox tables, ready to be prepared.
        pub(crate) struct Statements {
            $(pub(crate) $name: SqlStr,)*
        }

        impl Statements {
            /// The statements for tables whose names begin with `prefix`.
            pub(crate) fn new(prefix: &str) -> Self {
                Self { $($name: named(include_str!($file), prefix),)* }
            }
        }
    };
}

statements! {
    version = "migration/version.sql",
    set_version = "migration/set_version.sql",
    insert = "tx/insert.sql",
    insert_one = "tx/insert_one.sql",
    undo = "tx/undo.sql",
    find_repeated = "tx/find_repeated.sql",
    select = "take/select.sql",
    select_swept = "take/select_swept.sql",
    sweep = "take/sweep.sql",
    claim = "take/claim.sql",
    next_due = "take/next_due.sql",
    read_back = "take/read_back.sql",
    done = "settle/done.sql",
    delete = "settle/delete.sql",
    retry = "settle/retry.sql",
    aside = "settle/aside.sql",
    dead = "settle/dead.sql",
    release = "settle/release.sql",
    renew = "settle/renew.sql",
    held_before = "settle/held_before.sql",
    resume = "settle/resume.sql",
    stats = "admin/stats.sql",
    highest = "admin/highest.sql",
    find = "admin/find.sql",
    find_by_aggregate = "admin/find_by_aggregate.sql",
    list_dead = "admin/dead.sql",
    replay_ids = "admin/replay_ids.sql",
    replay_numbers = "admin/replay_numbers.sql",
    discard_ids = "admin/discard_ids.sql",
    discard_numbers = "admin/discard_numbers.sql",
    purge_window = "admin/purge_window.sql",
    purge = "admin/purge.sql",
}

/// `sql`, with `prefix` before the name of every table and index of ours.
///
/// Prefixes are checked before they come here: letters, digits and underscores.
pub(crate) fn named(sql: &'static str, prefix: &str) -> SqlStr {
    if prefix.is_empty() {
        return sql.into_sql_str();
    }
    let sql = sql.replace("outbox_", &format!("{prefix}outbox_"));
    AssertSqlSafe(Arc::<str>::from(sql)).into_sql_str()
}
