//! The SQL of the store, with the names of its tables filled in.

use pillarbox_sql::Names;
use sqlx::SqlStr;

macro_rules! statements {
    ($($name:ident = $file:literal,)*) => {
        /// Every statement on the outbox tables, ready to be prepared.
        pub(crate) struct Statements {
            $(pub(crate) $name: SqlStr,)*
        }

        impl Statements {
            /// The statements for tables of these names.
            pub(crate) fn new(names: &Names) -> Self {
                Self { $($name: names.fill(include_str!($file), &[]),)* }
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
    done_each = "settle/done_each.sql",
    delete_each = "settle/delete_each.sql",
    fell_back = "settle/fell_back.sql",
    retry = "settle/retry.sql",
    aside = "settle/aside.sql",
    dead = "settle/dead.sql",
    release = "settle/release.sql",
    renew = "settle/renew.sql",
    held_before = "settle/held_before.sql",
    resume = "settle/resume.sql",
    current = "settle/current.sql",
    mode = "mode/read.sql",
    set_mode = "mode/set.sql",
    definition = "mode/definition.sql",
    end_leases = "mode/end_leases.sql",
    end_ownership = "mode/end_ownership.sql",
    index_claims = "mode/index_claims.sql",
    index_unplaced = "mode/index_unplaced.sql",
    index_ownership = "mode/index_ownership.sql",
    of_other_mode = "membership/of_other_mode.sql",
    replace = "membership/replace.sql",
    strike_off = "membership/strike_off.sql",
    register = "membership/register.sql",
    members = "membership/members.sql",
    leave = "membership/leave.sql",
    take_over = "membership/take_over.sql",
    extend = "membership/extend.sql",
    raise = "membership/raise.sql",
    renew_partitions = "membership/renew.sql",
    release_partitions = "membership/release.sql",
    unplaced = "owned/unplaced.sql",
    place = "owned/place.sql",
    fetch = "owned/fetch.sql",
    below = "owned/below.sql",
    next_due_aside = "owned/next_due.sql",
    due = "owned/due.sql",
    aside_of = "owned/aside_of.sql",
    blocked = "owned/blocked.sql",
    start = "owned/start.sql",
    done_owned = "owned/done.sql",
    delete_owned = "owned/delete.sql",
    park = "owned/park.sql",
    skip = "owned/skip.sql",
    stats = "admin/stats.sql",
    stats_owned = "admin/stats_owned.sql",
    census_instances = "admin/census/instances.sql",
    census_leases = "admin/census/leases.sql",
    census_pending = "admin/census/pending.sql",
    census_keys = "admin/census/keys.sql",
    free_ids = "admin/free_ids.sql",
    free_numbers = "admin/free_numbers.sql",
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
    purge_window = "admin/purge_window.sql",
    purge = "admin/purge.sql",
    paused_routes = "admin/routes/paused.sql",
    pause_route = "admin/routes/pause.sql",
    resume_route = "admin/routes/resume.sql",
    recall = "admin/routes/recall.sql",
    recall_owned = "admin/routes/recall_owned.sql",
    outlines = "admin/outline/page.sql",
    outlines_of = "admin/outline/numbers.sql",
    examined_indexes = "diagnosis/indexes.sql",
}
