//! The SQL of the store, with the names of its tables filled in.

use pillarbox_sql::Names;
use sqlx::SqlStr;

/// What stands in a schema of its own; indexes and triggers follow their table.
pub(crate) const QUALIFIED: [&str; 8] = [
    "outbox_event",
    "outbox_event_seq_seq",
    "outbox_fill_partition",
    "outbox_instance",
    "outbox_meta",
    "outbox_parked",
    "outbox_partition",
    "outbox_spread_partition",
];

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
    fell_back = "settle/fell_back.sql",
    delete = "settle/delete.sql",
    settle = "settle/settle.sql",
    owned_done = "settle/owned_done.sql",
    owned_fell_back = "settle/owned_fell_back.sql",
    owned_delete = "settle/owned_delete.sql",
    owned_settle = "settle/owned_settle.sql",
    locked = "settle/locked.sql",
    renew = "settle/renew.sql",
    resume = "settle/resume.sql",
    current = "settle/current.sql",
    stats = "admin/stats.sql",
    stats_owned = "admin/stats_owned.sql",
    census_snapshot = "admin/census/snapshot.sql",
    census_mode = "admin/census/mode.sql",
    census_instances = "admin/census/instances.sql",
    census_leases = "admin/census/leases.sql",
    census_pending = "admin/census/pending.sql",
    census_keys = "admin/census/keys.sql",
    highest = "admin/highest.sql",
    find = "admin/find.sql",
    find_by_aggregate = "admin/find_by_aggregate.sql",
    list_dead = "admin/dead.sql",
    replay_ids = "admin/replay_ids.sql",
    replay_numbers = "admin/replay_numbers.sql",
    discard_ids = "admin/discard_ids.sql",
    discard_numbers = "admin/discard_numbers.sql",
    progress = "admin/handlers/progress.sql",
    progress_owned = "admin/handlers/progress_owned.sql",
    revise = "admin/handlers/revise.sql",
    purge = "admin/purge.sql",
    paused_routes = "admin/routes/paused.sql",
    pause_route = "admin/routes/pause.sql",
    resume_route = "admin/routes/resume.sql",
    recall = "admin/routes/recall.sql",
    recall_owned = "admin/routes/recall_owned.sql",
    outlines = "admin/outline/page.sql",
    outlines_of = "admin/outline/numbers.sql",
    channel = "wake/channel.sql",
    lock_leases = "mode/lock_leases.sql",
    lock_events = "mode/lock_events.sql",
    standing = "mode/standing.sql",
    of_other_mode = "mode/of_other_mode.sql",
    end = "mode/end.sql",
    index_claims = "mode/index_claims.sql",
    index_ownership = "mode/index_ownership.sql",
    floors = "mode/floors.sql",
    set_mode = "mode/set.sql",
    replace = "membership/replace.sql",
    strike_off_ended = "membership/strike_off_ended.sql",
    register = "membership/register.sql",
    inherit = "membership/inherit.sql",
    beat = "membership/beat.sql",
    acquire = "membership/acquire.sql",
    release = "membership/release.sql",
    leave = "membership/leave.sql",
    closed = "closed/look.sql",
    fresh = "owned/fresh.sql",
    due = "owned/due.sql",
    aside_of = "owned/aside_of.sql",
    blocked = "owned/blocked.sql",
    unplaced = "owned/unplaced.sql",
    place = "owned/place.sql",
    start = "owned/start.sql",
    skip = "owned/skip.sql",
    examined_indexes = "diagnosis/indexes.sql",
    examined_bloat = "diagnosis/bloat.sql",
    examined_transactions = "diagnosis/transactions.sql",
}
