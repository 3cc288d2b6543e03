//! The SQL of the store, with the names of its tables filled in.

mod visited;

use std::sync::{Arc, OnceLock};

use pillarbox_sql::Names;
use sqlx::mysql::{MySql, MySqlArguments};
use sqlx::query::Query;
use sqlx::{AssertSqlSafe, Encode, SqlSafeStr, SqlStr, Type};

pub(crate) use visited::Visited;

/// Tables and triggers, which a schema stands before.
pub(crate) const QUALIFIED: [&str; 6] = [
    "outbox_meta",
    "outbox_event",
    "outbox_event_partition",
    "outbox_instance",
    "outbox_partition",
    "outbox_parked",
];

/// What stands for a list of values in SQL.
const LIST: &str = "IN (?)";

/// The most values of a list. MariaDB treats lists of 1,000 as tables.
pub(crate) const MOST_LISTED: usize = 512;

macro_rules! statements {
    ($($name:ident: $kind:ident = $file:literal,)*) => {
        /// Every statement on the outbox tables, ready to be prepared.
        pub(crate) struct Statements {
            $(pub(crate) $name: $kind,)*
        }

        impl Statements {
            /// The statements for tables that are named so.
            pub(crate) fn new(names: &Names) -> Self {
                Self { $($name: $kind::from(names.fill(include_str!($file), &QUALIFIED)),)* }
            }
        }
    };
}

statements! {
    lock: SqlStr = "migration/lock.sql",
    unlock: SqlStr = "migration/unlock.sql",
    version: SqlStr = "migration/version.sql",
    set_version: SqlStr = "migration/set_version.sql",
    drop_trigger: SqlStr = "migration/drop_trigger.sql",
    has_trigger: SqlStr = "migration/has_trigger.sql",
    engine: SqlStr = "migration/engine.sql",
    insert: SqlStr = "tx/insert.sql",
    insert_leased: SqlStr = "tx/insert_leased.sql",
    insert_scheduled: SqlStr = "tx/insert_scheduled.sql",
    select: SqlStr = "take/select.sql",
    select_swept: Listed = "take/select_swept.sql",
    sweep: SqlStr = "take/sweep.sql",
    claim: Listed = "take/claim.sql",
    next_due: SqlStr = "take/next_due.sql",
    read_back: Listed = "take/read_back.sql",
    done: Listed = "settle/done.sql",
    delete: Listed = "settle/delete.sql",
    done_each: SqlStr = "settle/done_each.sql",
    fell_back: SqlStr = "settle/fell_back.sql",
    delete_each: SqlStr = "settle/delete_each.sql",
    held: Listed = "settle/held.sql",
    free: Listed = "settle/free.sql",
    present: Listed = "settle/present.sql",
    renew: SqlStr = "settle/renew.sql",
    retry: SqlStr = "settle/retry.sql",
    aside: SqlStr = "settle/aside.sql",
    dead: SqlStr = "settle/dead.sql",
    release: SqlStr = "settle/release.sql",
    current: SqlStr = "settle/current.sql",
    replace: SqlStr = "membership/replace.sql",
    held_before: SqlStr = "settle/held_before.sql",
    resume: Listed = "settle/resume.sql",
    owned_done: SqlStr = "settle/owned/done.sql",
    owned_fell_back: SqlStr = "settle/owned/fell_back.sql",
    owned_delete: SqlStr = "settle/owned/delete.sql",
    owned_retry: SqlStr = "settle/owned/retry.sql",
    owned_aside: SqlStr = "settle/owned/aside.sql",
    owned_dead: SqlStr = "settle/owned/dead.sql",
    owned_release: SqlStr = "settle/owned/release.sql",
    start: SqlStr = "settle/owned/start.sql",
    leases: Listed = "settle/owned/leases.sql",
    park: Listed = "settle/owned/park.sql",
    state: SqlStr = "membership/state.sql",
    state_to_change: SqlStr = "membership/state_to_change.sql",
    others: SqlStr = "membership/others.sql",
    strike_off: SqlStr = "membership/strike_off.sql",
    register: SqlStr = "membership/register.sql",
    members: SqlStr = "membership/members.sql",
    leave: SqlStr = "membership/leave.sql",
    own: SqlStr = "membership/own.sql",
    lock_partitions: Listed = "membership/lock.sql",
    give: SqlStr = "membership/give.sql",
    give_back: SqlStr = "membership/give_back.sql",
    clear: SqlStr = "membership/clear.sql",
    increment: SqlStr = "membership/increment.sql",
    fetch: Visited = "owned/fetch.sql",
    below: Visited = "owned/below.sql",
    due: Visited = "owned/due.sql",
    aside_of: SqlStr = "owned/aside_of.sql",
    blocked: Listed = "owned/blocked.sql",
    adopt: SqlStr = "owned/adopt.sql",
    skip: Listed = "owned/skip.sql",
    mode: SqlStr = "mode/stored.sql",
    set_mode: SqlStr = "mode/set.sql",
    indexes: SqlStr = "mode/indexes.sql",
    end_ownership: SqlStr = "mode/end_ownership.sql",
    end_parking: SqlStr = "mode/end_parking.sql",
    bound: SqlStr = "mode/bound.sql",
    bound_by_partition: SqlStr = "mode/bound_by_partition.sql",
    free_bound: Listed = "mode/free.sql",
    stats: SqlStr = "admin/stats.sql",
    stats_by_partition: SqlStr = "admin/stats_by_partition.sql",
    census_instances: SqlStr = "admin/census/instances.sql",
    census_leases: SqlStr = "admin/census/leases.sql",
    census_pending: SqlStr = "admin/census/pending.sql",
    census_keys: SqlStr = "admin/census/keys.sql",
    highest: SqlStr = "admin/highest.sql",
    probe: SqlStr = "admin/probe.sql",
    find: SqlStr = "admin/find.sql",
    find_by_aggregate: SqlStr = "admin/find_by_aggregate.sql",
    list_dead: SqlStr = "admin/dead.sql",
    replay_ids: Listed = "admin/replay_ids.sql",
    replay_numbers: SqlStr = "admin/replay_numbers.sql",
    dead_ids: Listed = "admin/dead_ids.sql",
    dead_numbers: SqlStr = "admin/dead_numbers.sql",
    unpark_ids: Listed = "admin/unpark_ids.sql",
    unpark_numbers: SqlStr = "admin/unpark_numbers.sql",
    discard: Listed = "admin/discard.sql",
    progress_pending: SqlStr = "admin/handlers/pending.sql",
    progress_by_partition: SqlStr = "admin/handlers/pending_by_partition.sql",
    progress_dead: SqlStr = "admin/handlers/dead.sql",
    open_progress: Listed = "admin/handlers/open.sql",
    revise: SqlStr = "admin/handlers/revise.sql",
    purge_window: SqlStr = "admin/purge_window.sql",
    purgeable: SqlStr = "admin/purgeable.sql",
    purge: Listed = "admin/purge.sql",
    paused_routes: SqlStr = "admin/routes/paused.sql",
    pause_route: SqlStr = "admin/routes/pause.sql",
    resume_route: SqlStr = "admin/routes/resume.sql",
    waiting: SqlStr = "admin/routes/waiting.sql",
    waiting_by_partition: Listed = "admin/routes/waiting_by_partition.sql",
    recall: Listed = "admin/routes/recall.sql",
    outlines: SqlStr = "admin/outline/page.sql",
    outlines_of: Listed = "admin/outline/numbers.sql",
    examined_bloat: SqlStr = "diagnosis/bloat.sql",
}

/// A statement with a list of values, of which there may be 1 to [`MOST_LISTED`].
///
/// It exists for 1, 2, 4, … values, and the last value is repeated to fill the list: so a handful of prepared
/// statements serves any number.
pub(crate) struct Listed {
    sql: SqlStr,
    sizes: [OnceLock<SqlStr>; 10],
}

impl From<SqlStr> for Listed {
    fn from(sql: SqlStr) -> Self {
        Self { sql, sizes: Default::default() }
    }
}

impl Listed {
    /// The statement for this many values, which [`bind_list`] binds.
    pub(crate) fn of(&self, values: usize) -> SqlStr {
        let room = values.next_power_of_two();
        let sql = self.sizes[room.trailing_zeros() as usize].get_or_init(|| {
            let list = format!("IN ({})", vec!["?"; room].join(", "));
            AssertSqlSafe(Arc::<str>::from(self.sql.as_str().replace(LIST, &list))).into_sql_str()
        });
        sql.clone()
    }
}

/// A query on the outbox tables.
pub(crate) type MySqlQuery<'q> = Query<'q, MySql, MySqlArguments>;

/// Binds the values of a [`Listed`] statement.
pub(crate) fn bind_list<'q, T>(query: MySqlQuery<'q>, values: &[T]) -> MySqlQuery<'q>
where
    T: Encode<'q, MySql> + Type<MySql> + Copy,
{
    let repeated = values.len().next_power_of_two() - values.len();
    let rest = values.last().into_iter().cycle().take(repeated);
    values.iter().chain(rest).fold(query, |query, value| query.bind(*value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parameters(sql: &SqlStr) -> usize {
        sql.as_str().matches('?').count()
    }

    /// Every number of values has a statement with room for it, and its parameters are all bound.
    #[test]
    fn a_list_has_room_for_its_values() {
        let statements = Statements::new(&Names::default());
        let others = parameters(&statements.done.sql) - 1;

        for count in 1..=MOST_LISTED {
            let room = parameters(&statements.done.of(count)) - others;
            assert!((count..=MOST_LISTED.min(2 * count)).contains(&room), "{room} for {count} values");
        }
    }

    /// S6: schema and prefix reach every statement.
    #[test]
    fn names_reach_every_table() {
        let statements = Statements::new(&Names::new(Some("shop"), "eu_").unwrap());

        assert!(statements.claim.of(1).as_str().starts_with("UPDATE shop.eu_outbox_event FORCE INDEX"));
        assert!(statements.version.as_str().contains("FROM shop.eu_outbox_meta"));
        assert!(statements.select.as_str().contains("FORCE INDEX (eu_outbox_event_pending)"));
    }
}
