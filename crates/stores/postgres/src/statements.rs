//! The SQL of the store, with the names of its tables filled in.

use pillarbox_sql::Names;
use sqlx::SqlStr;

/// What stands in a schema of its own; indexes and triggers follow their table.
pub(crate) const QUALIFIED: [&str; 4] =
    ["outbox_event", "outbox_meta", "outbox_fill_partition", "outbox_event_seq_seq"];

macro_rules! statements {
    ($($name:ident = $file:literal,)*) => {
        /// Every statement on the outbox tables, ready to be prepared.
        pub(crate) struct Statements {
            $(pub(crate) $name: SqlStr,)*
        }

        impl Statements {
            /// The statements for tables with these names.
            pub(crate) fn new(names: &Names) -> Self {
                Self { $($name: names.fill(include_str!($file), &QUALIFIED),)* }
            }
        }
    };
}

statements! {
    version = "migration/version.sql",
    insert = "tx/insert.sql",
    insert_one = "tx/insert_one.sql",
    claim = "take/claim.sql",
    sweep = "take/sweep.sql",
    read_back = "take/read_back.sql",
    done = "settle/done.sql",
    delete = "settle/delete.sql",
    settle = "settle/settle.sql",
    locked = "settle/locked.sql",
    renew = "settle/renew.sql",
    resume = "settle/resume.sql",
    current = "settle/current.sql",
    stats = "admin/stats.sql",
    highest = "admin/highest.sql",
    find = "admin/find.sql",
    find_by_aggregate = "admin/find_by_aggregate.sql",
    list_dead = "admin/dead.sql",
    replay_ids = "admin/replay_ids.sql",
    replay_numbers = "admin/replay_numbers.sql",
    discard_ids = "admin/discard_ids.sql",
    discard_numbers = "admin/discard_numbers.sql",
    purge = "admin/purge.sql",
    channel = "wake/channel.sql",
}
