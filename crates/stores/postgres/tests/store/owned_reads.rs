//! Reading from partitions: what it touches, what it costs, and rows that were written past the triggers.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::ops::RangeInclusive;
use std::time::Duration;

use pillarbox::store::{
    Administration, DoneRows, EventStore, Fetched, Holding, Mode, Outcome, Ownership, Settlement, StoreError,
    Visit,
};
use pillarbox::{Event, partition_of};
use pillarbox_testkit::conformance::ownership::{
    aside_of, behind_key, due, fetch, floor, joined, owner_of, owner_of_all, place, visit, without_key,
};
use pillarbox_testkit::conformance::{NONE, order_placed, settle, write};
use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, Executor, Row};

use crate::stage::{PostgresStage, write_plainly};
use crate::statements::counted;

/// What the sessions of the store are like.
const SESSION: &str = include_str!("../../src/lane/session.sql");

/// Leaves dead versions in the index of fresh rows, which nobody can clean up while a snapshot is held.
const LITTER: &str = "
    ALTER TABLE outbox_event SET (autovacuum_enabled = off);
    INSERT INTO outbox_event (event_id, event_type, payload, event_partition)
    SELECT 'done-' || n, 'OrderPlaced', '{}', n % 256 FROM generate_series(1, 60000) AS n;
    UPDATE outbox_event SET status = 1";

/// Rows whose writer gave numbers that are no partitions, and such rows from beside the triggers.
const BY_HAND: &str = "
    INSERT INTO outbox_event (event_id, event_type, payload, event_key, event_partition) VALUES
    ('above', 'OrderPlaced', '{}', 'order-17', 256),
    ('below', 'OrderPlaced', '{}', 'order-17', -64),
    ('keyless', 'OrderPlaced', '{}', NULL, -1)";
const PAST_TRIGGERS: &str = "
    INSERT INTO outbox_event (event_id, event_type, payload, event_key, event_partition) VALUES
    ('past-above', 'OrderPlaced', '{}', 'order-17', 32767),
    ('past-below', 'OrderPlaced', '{}', 'order-17', -64),
    ('past-keyless', 'OrderPlaced', '{}', NULL, -32768)";

/// Two fresh rows in each partition.
const FRESH: &str = "
    INSERT INTO outbox_event (event_id, event_type, payload, event_partition)
    SELECT 'fresh-' || n, 'OrderPlaced', '{}', n % 256 FROM generate_series(1, 512) AS n";

/// P3: while a snapshot is held open, a fetch touches at most ten pages per partition that it visits, however many
/// dead versions lie below the floor.
pub(crate) async fn fetch_touches_ten_pages_per_partition(stage: &PostgresStage) {
    stage.store.migrate_to(Mode::Ownership).await.unwrap();
    let mut holder = stage.connection().await;
    holder.execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT FROM outbox_event").await.unwrap();
    stage.execute(LITTER).await;
    stage.execute(FRESH).await;

    for partitions in [0..=255, 7..=7] {
        let count = partitions.clone().count() as i64;
        let (rows, pages) = pages(stage, partitions, |_| 60_000).await;
        assert_eq!(rows, 2 * count);
        assert!(pages <= 10 * count, "{pages} pages for {count} partitions");
    }
    let (_, from_the_beginning) = pages(stage, 0..=255, |_| 0).await;
    assert!(from_the_beginning > 10_000, "nothing lay in the way: {from_the_beginning} pages");
    holder.execute("ROLLBACK").await.unwrap();
}

/// P3: a long backlog costs a fetch what it brings, and no more.
pub(crate) async fn backlog_costs_what_is_fetched(stage: &PostgresStage) {
    stage.store.migrate_to(Mode::Ownership).await.unwrap();
    stage
        .execute(
            "INSERT INTO outbox_event (event_id, event_type, payload, event_partition)
             SELECT 'order-' || n, 'OrderPlaced', '{}', n % 256 FROM generate_series(1, 200000) AS n",
        )
        .await;

    let (rows, pages) = pages(stage, 0..=255, |_| 0).await;

    assert_eq!(rows, 5 * 256);
    assert!(pages <= 10 * 256, "{pages} pages");
}

/// P3: what owners have done changes no index: the new version of a row lies behind the old one on its page.
pub(crate) async fn done_events_change_no_index(stage: &PostgresStage) {
    stage.store.migrate_to(Mode::Ownership).await.unwrap();
    stage.execute(FRESH).await;
    let mut connection = stage.connection().await;
    let prepare = format!(
        "PREPARE done (bigint[], bigint[], text[], smallint[]) AS {}",
        include_str!("../../src/settle/owned_done.sql")
    );
    connection.execute(AssertSqlSafe(prepare)).await.unwrap();
    connection.execute("BEGIN").await.unwrap();
    let arguments = "SELECT format(
            'EXECUTE done (%L, %L, %L, %L)',
            array_agg(seq),
            array_agg(~(epoch << 8 | event_partition)),
            array_agg(event_id),
            array_agg(DISTINCT event_partition)
        )
        FROM outbox_event
        JOIN outbox_partition USING (event_partition)";
    let done: String = sqlx::query_scalar(arguments).fetch_one(&mut connection).await.unwrap();

    let settled = connection.fetch_one(AssertSqlSafe(done)).await.unwrap();

    let is_all = settled.try_get::<Option<Vec<i64>>, _>("seqs").unwrap().is_none();
    let in_place = "SELECT pg_stat_get_xact_tuples_hot_updated('outbox_event'::regclass)";
    let in_place: i64 = sqlx::query_scalar(in_place).fetch_one(&mut connection).await.unwrap();
    assert_eq!((is_all, in_place), (true, 512));
}

/// D12: a batch that two connections record is recorded as a whole, and a repetition finds all of it settled.
pub(crate) async fn large_batch_is_recorded_by_two_at_once(stage: &PostgresStage) {
    let (_, holdings) = owner_of_all(stage).await;
    write(stage, &(0..600).map(|n| order_placed(&format!("order-{n}"))).collect::<Vec<_>>()).await;
    let visits: Vec<Visit> = holdings.iter().map(visit).collect();
    let fetched = stage.store.fetch(&visits, 600).await.unwrap();
    let done = outcomes(&fetched, &Outcome::Done);

    let lost = stage.store.settle(&done, DoneRows::Keep).await.unwrap();
    let again = stage.store.settle(&done, DoneRows::Keep).await.unwrap();

    let stats = stage.store.stats().await.unwrap();
    assert_eq!((fetched.len(), lost.len(), again.len(), stats.pending()), (600, 0, 600, 0));
}

/// P3, O5: a floor that lies far below the numbers of today is read from in spans, so that no statement steps over all
/// that was done since; a fetch that is full looks no further.
pub(crate) async fn floor_far_below_is_read_from_in_spans(stage: &PostgresStage) {
    let (_, held) = owner_of(stage, "order-17").await;
    let [early, late] = [(); 2].map(|()| order_placed("order-17"));
    write(stage, std::slice::from_ref(&early)).await;
    stage.execute("SELECT setval('outbox_event_seq_seq', 4500000)").await;
    write(stage, std::slice::from_ref(&late)).await;

    let (both, all) = counted(stage.store.fetch(&[visit(&held)], 2)).await;
    let (first, one) = counted(stage.store.fetch(&[visit(&held)], 1)).await;

    assert!(ids(&both.unwrap()).eq([early.id(), late.id()]));
    assert!(ids(&first.unwrap()).eq([early.id()]));
    assert_eq!((all.len(), one.len()), (5, 1), "{all:?} {one:?}");
}

/// How many rows a fetch of five per partition brings, and how many pages it touches.
pub(crate) async fn pages(
    stage: &PostgresStage,
    partitions: RangeInclusive<u8>,
    floor: impl Fn(u8) -> i64,
) -> (i64, i64) {
    let mut connection = stage.connection().await;
    connection.execute(SESSION).await.unwrap();
    let prepare = format!(
        "PREPARE asked (smallint[], bigint[], bigint[], bigint[], bigint) AS {}",
        include_str!("../../src/owned/fresh.sql")
    );
    connection.execute(AssertSqlSafe(prepare)).await.unwrap();
    let array = |value: &dyn Fn(u8) -> i64| {
        let values: Vec<String> = partitions.clone().map(|partition| value(partition).to_string()).collect();
        format!("'{{{}}}'", values.join(", "))
    };
    let explain = format!(
        "EXPLAIN (ANALYZE, BUFFERS, COSTS OFF, TIMING OFF, FORMAT JSON) EXECUTE asked ({}, {}, {}, '{{}}', 5)",
        array(&i64::from),
        array(&floor),
        array(&|_| i64::MAX)
    );
    let plan = connection.fetch_one(AssertSqlSafe(explain)).await.unwrap();
    let plan: &str = plan.try_get_unchecked(0).unwrap();
    (figure(plan, "Actual Rows"), pages_of(plan))
}

/// How many pages a plan in JSON has touched.
pub(crate) fn pages_of(plan: &str) -> i64 {
    figure(plan, "Shared Hit Blocks") + figure(plan, "Shared Read Blocks")
}

/// The first figure of this name, which is that of the whole.
fn figure(plan: &str, name: &str) -> i64 {
    let (_, behind) = plan.split_once(&format!("\"{name}\": ")).unwrap();
    behind.chars().take_while(char::is_ascii_digit).collect::<String>().parse().unwrap()
}

/// O3: rows that were written past the triggers get their partition before anything is read, by their key or their
/// number, and are delivered in order with the rest.
pub(crate) async fn rows_written_past_the_triggers_are_adopted(stage: &PostgresStage) {
    let (_, holdings) = owner_of_all(stage).await;
    let visits: Vec<Visit> = holdings.iter().map(visit).collect();
    let mut replica = stage.connection().await;
    replica.execute("SET session_replication_role = replica").await.unwrap();
    let events: Vec<Event> = (0..2_500)
        .map(|n| if n % 2 == 0 { order_placed(&format!("order-{n}")) } else { without_key() })
        .collect();
    write(stage, &events[..1]).await;
    assert_eq!(stage.store.fetch(&visits, 1_000).await.unwrap().len(), 1);
    for event in &events[1..] {
        write_plainly(&mut replica, event).await;
    }

    let (fetched, statements) = counted(stage.store.fetch(&visits, 1_000)).await;

    let fetched = fetched.unwrap();
    assert!(ids(&fetched).eq(events.iter().map(Event::id)));
    for row in &fetched {
        let (partition, _) = row.taken.lease.token.partition().unwrap();
        let expected = row.key.as_deref().map_or(row.taken.lease.seq as u8, partition_of);
        assert_eq!(partition, expected);
    }
    assert_eq!(statements.len(), 2 + 2 * 3, "three runs of a thousand between two looks: {statements:?}");
}

/// O2, O3: a partition that is none is corrected as a row is written, and before anything is read where triggers were off:
/// a hash of a byte with a sign, from another program, keeps no event waiting for ever.
pub(crate) async fn partition_that_is_none_is_corrected(stage: &PostgresStage) {
    let (_, holdings) = owner_of_all(stage).await;
    let visits: Vec<Visit> = holdings.iter().map(visit).collect();
    let mut replica = stage.connection().await;
    replica.execute(BY_HAND).await.unwrap();
    replica.execute("SET session_replication_role = replica").await.unwrap();
    replica.execute(PAST_TRIGGERS).await.unwrap();
    let census = stage.store.census().await.unwrap();
    let stats = stage.store.stats().await.unwrap();
    assert_eq!((census.unplaced, census.pending(), stats.pending()), (3, 6, 6));

    let fetched = stage.store.fetch(&visits, 10).await.unwrap();

    assert!(ids(&fetched).eq(["above", "below", "keyless", "past-above", "past-below", "past-keyless"]));
    for row in &fetched {
        let (partition, _) = row.taken.lease.token.partition().unwrap();
        assert_eq!(partition, row.key.as_deref().map_or(row.taken.lease.seq as u8, partition_of));
        assert_eq!(settle(stage, &row.taken, Outcome::Done).await, NONE);
    }
    assert_eq!(stage.store.census().await.unwrap().unplaced, 0);
}

/// O2: a replayed event that has no partition, or one that is none, gets one, too.
pub(crate) async fn rows_that_are_aside_are_adopted(stage: &PostgresStage) {
    let (_, held) = owner_of(stage, "order-17").await;
    let follower = place(stage, &held, "order-17").await;
    settle(stage, &follower.taken, behind_key()).await;
    for none in ["NULL", "-64"] {
        stage.execute(format!("UPDATE outbox_event SET event_partition = {none}")).await;
        assert!(aside_of(stage, &held, "order-17").await.is_empty());

        assert!(fetch(stage, &held).await.is_empty());

        assert!(ids(&aside_of(stage, &held, "order-17").await).eq([follower.taken.event_id.as_str()]));
    }
}

/// O2: the database keeps an event that waits for no key from waiting for ever, and tells why.
pub(crate) async fn endless_wait_without_a_key_is_explained(stage: &PostgresStage) {
    let (_, holdings) = owner_of_all(stage).await;
    write(stage, &[without_key()]).await;
    let visits: Vec<Visit> = holdings.iter().map(visit).collect();
    let fetched = stage.store.fetch(&visits, 1).await.unwrap().remove(0);
    let settlement = Settlement::of(&fetched.taken, behind_key());

    let refused = stage.store.settle(&[settlement], DoneRows::Keep).await.unwrap_err();

    assert!(matches!(refused, StoreError::Refused { .. }), "{refused:?}");
    assert!(refused.to_string().contains("is set aside with an end"), "{refused}");
}

/// D12: a row that another transaction has locked is named, and what was recorded meanwhile of a batch that is written
/// by several statements does not pass for lost when the others are recorded.
pub(crate) async fn locked_row_makes_no_other_outcome_lost(stage: &PostgresStage) {
    let store = stage.options().lock_timeout(Duration::from_millis(100)).connect().await.unwrap();
    let (_, held) = owner_of_all(stage).await;
    let orders: Vec<Event> = (0..1_000).map(|number| order_placed(&format!("order-{number}"))).collect();
    write(stage, &orders).await;
    let visits: Vec<Visit> = held.iter().map(visit).collect();
    let mut fetched = store.fetch(&visits, orders.len()).await.unwrap();
    fetched.sort_by_key(|fetched| fetched.taken.lease.seq);
    let mut user = stage.connection().await;

    for locked in [0, 999] {
        let number = fetched[locked].taken.lease.seq;
        let done = outcomes(&fetched, &Outcome::Done);
        let lock = format!("BEGIN; SELECT FROM outbox_event WHERE seq = {number} FOR UPDATE");
        user.execute(AssertSqlSafe(lock)).await.unwrap();
        let first = store.settle(&done, DoneRows::Keep).await.unwrap_err();
        let others: Vec<Settlement> =
            done.iter().filter(|settlement| settlement.lease.seq != number).cloned().collect();
        let without = store.settle(&others, DoneRows::Keep).await.unwrap();
        user.execute("ROLLBACK").await.unwrap();
        let again = store.settle(&done, DoneRows::Keep).await.unwrap();

        assert!(matches!(first, StoreError::Locked { numbers } if numbers == [number]));
        assert_eq!(without, NONE);
        let settled: Vec<i64> = others.iter().map(|settlement| settlement.lease.seq).collect();
        assert_eq!(again.iter().collect::<BTreeSet<_>>(), settled.iter().collect(), "that is told once");
        stage.execute("UPDATE outbox_event SET status = 0, done_at = NULL").await;
    }
    store.close().await;
}

/// D12, P5: every call is one statement, which commits by itself, and so is a batch of outcomes of one kind.
pub(crate) async fn calls_of_owners_are_one_statement(stage: &PostgresStage) {
    let (relay, holdings) = owner_of_all(stage).await;
    let orders: Vec<Event> = (0..40).map(|n| order_placed(&format!("order-{n}"))).collect();
    write(stage, &orders).await;
    let visits: Vec<Visit> = holdings.iter().map(visit).collect();
    let all: Vec<u8> = (0..=u8::MAX).collect();
    let floors: Vec<_> = holdings.iter().map(|held| floor(held, 0)).collect();
    let (store, keys) = (&stage.store, ["order-1".to_owned()]);
    let fetched = store.fetch(&visits, 10).await.unwrap();
    assert_eq!(store.settle(&outcomes(&fetched[..10], &Outcome::Done), DoneRows::Keep).await.unwrap(), NONE);
    let aside = outcomes(&fetched[10..20], &behind_key());
    let mixed =
        [outcomes(&fetched[20..22], &Outcome::Done), outcomes(&fetched[22..24], &behind_key())].concat();

    let mut statements = String::new();
    for (expected, took) in [
        (1, counted(store.fetch(&visits, 10)).await.1),
        (1, counted(store.below(&visits, 10)).await.1),
        (1, counted(store.due(&visits, 10)).await.1),
        (1, counted(store.aside_of(&visits[7], "order-1", 10)).await.1),
        (1, counted(store.blocked(&all)).await.1),
        (1, counted(store.numbers()).await.1),
        (1, counted(store.start(&fetched[30].taken)).await.1),
        (1, counted(store.skip(&keys)).await.1),
        (1, counted(store.settle(&outcomes(&fetched[24..30], &Outcome::Done), DoneRows::Delete)).await.1),
        (1, counted(store.settle(&aside, DoneRows::Keep)).await.1),
        (3, counted(store.settle(&mixed, DoneRows::Keep)).await.1),
        (1, counted(store.beat(&relay, &floors)).await.1),
        (1, counted(store.acquire(&relay, &all)).await.1),
        (1, counted(store.release(&relay.owner, &floors)).await.1),
        (1, counted(store.leave(&relay.owner)).await.1),
    ] {
        if took.len() != expected {
            writeln!(statements, "{took:?}").unwrap();
        }
    }

    assert_eq!(statements, "");
}

fn ids(fetched: &[Fetched]) -> impl Iterator<Item = &str> {
    fetched.iter().map(|fetched| fetched.taken.event_id.as_str())
}

fn outcomes(fetched: &[Fetched], outcome: &Outcome) -> Vec<Settlement> {
    fetched.iter().map(|row| Settlement::of(&row.taken, outcome.clone())).collect()
}

/// O2: keys are told from key to key: a hundred events behind one cost no more than one.
pub(crate) async fn blocked_key_costs_the_same_however_many_wait(stage: &PostgresStage) {
    let (_, held) = owner_of(stage, "order-17").await;
    joined(stage, "relay-2").await;
    let aside =
        "INSERT INTO outbox_event (event_id, event_type, payload, event_key, status, available_at, reason)
         SELECT 'order-' || n, 'OrderPlaced', '{}', 'order-17', 2, 'infinity', 'its key waits'
         FROM generate_series(1, 20000) AS n";
    stage.execute(aside).await;
    assert!(due(stage, &held).await.is_empty());

    let pages = read_pages(stage, &held, include_str!("../../src/owned/blocked.sql")).await;

    assert!(pages <= 20, "{pages} pages");
}

/// How many pages a statement about one partition touches.
async fn read_pages(stage: &PostgresStage, held: &Holding, sql: &str) -> i64 {
    let mut connection: PgConnection = stage.connection().await;
    connection.execute(SESSION).await.unwrap();
    connection.execute(AssertSqlSafe(format!("PREPARE asked (smallint[]) AS {sql}"))).await.unwrap();
    let explain = format!(
        "EXPLAIN (ANALYZE, BUFFERS, COSTS OFF, TIMING OFF, FORMAT JSON) EXECUTE asked ('{{{}}}')",
        held.partition
    );
    let plan = connection.fetch_one(AssertSqlSafe(explain)).await.unwrap();
    pages_of(plan.try_get_unchecked(0).unwrap())
}
