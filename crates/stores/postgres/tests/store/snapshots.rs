//! A snapshot that somebody holds open, and what it costs to look for events meanwhile.

use pillarbox::store::EventStore;
use pillarbox_testkit::conformance::{order_placed, take, write};
use sqlx::{Executor, Row};

use crate::stage::PostgresStage;

/// Row versions that nobody can clean up, in front of what is due.
const GARBAGE: i64 = 20_000;

/// Leaves [`GARBAGE`] in the index of pending rows.
const LITTER: &str = "
    INSERT INTO outbox_event (event_id, event_type, payload, available_at)
    SELECT 'done-' || n, 'OrderPlaced', '{}', now() - interval '1 hour'
    FROM generate_series(1, 20000) AS n;
    UPDATE outbox_event SET status = 1 WHERE event_id LIKE 'done-%'";

/// Makes every take slow, as garbage does on a busy machine.
const SLOW: &str = "
    ALTER TABLE outbox_event SET (autovacuum_enabled = off);
    CREATE FUNCTION dawdle() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(0.1); RETURN NULL; END';
    CREATE TRIGGER dawdle BEFORE UPDATE ON outbox_event FOR EACH STATEMENT EXECUTE FUNCTION dawdle()";

/// P3: while a snapshot is held open, most takes begin where the last one ended, and step over no garbage; what
/// they take is complete and in order.
pub(crate) async fn held_snapshot_does_not_make_takes_read_garbage(stage: &PostgresStage) {
    const TAKES: usize = 30;
    let store = stage.marked().await;
    let mut holder = stage.connection().await;
    holder.execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT FROM outbox_event").await.unwrap();
    stage.execute(LITTER).await;
    stage.execute(SLOW).await;
    let events: Vec<_> = (0..TAKES).map(|n| order_placed(&format!("order-{n}"))).collect();
    write(stage, &events).await;

    let mut taken = Vec::new();
    for _ in 0..TAKES {
        taken.extend(store.take(take(1)).await.unwrap().events);
    }
    store.close().await;

    let read = entries_read(stage).await;
    let (least, most) = (GARBAGE * 3, GARBAGE * TAKES as i64 / 3);
    assert!((least..most).contains(&read), "{read} index entries were read, which is not in {least}..{most}");
    assert!(taken.into_iter().map(|taken| taken.event.unwrap()).eq(events));
    holder.execute("ROLLBACK").await.unwrap();
}

/// Entries of the index of pending rows that sessions which have ended read.
async fn entries_read(stage: &PostgresStage) -> i64 {
    let mut connection = stage.connection().await;
    let sessions = "SELECT count(*) FROM pg_stat_activity WHERE application_name = $1";
    loop {
        let open = sqlx::query(sessions).bind(&stage.schema).fetch_one(&mut connection).await.unwrap();
        if open.get::<i64, _>(0) == 0 {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    let read = "SELECT idx_tup_read FROM pg_stat_user_indexes WHERE schemaname = $1 AND indexrelname = 'outbox_event_pending'";
    sqlx::query(read).bind(&stage.schema).fetch_one(&mut connection).await.unwrap().get(0)
}
