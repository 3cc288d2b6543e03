//! The closed number: nothing ever appears below it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use pillarbox::store::{Administration, Ownership, StoreError, TxStore};
use pillarbox_postgres::PostgresStore;
use pillarbox_testkit::conformance::{StoreHarness, order_placed, write};
use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, Connection, Executor, Row};

use crate::stage::PostgresStage;

const WRITERS: usize = 8;

/// How long they write.
const STRESS: Duration = Duration::from_secs(4);

/// Makes some rows come late, after they have their number.
const DAWDLE: &str = "
    CREATE FUNCTION dawdle() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        IF random() < 0.1 THEN PERFORM pg_sleep(random() * 0.03); END IF;
        RETURN NEW;
    END $$;
    CREATE TRIGGER dawdle BEFORE INSERT ON outbox_event FOR EACH ROW EXECUTE FUNCTION dawdle()";

/// Writes two rows.
const INSERT: &str = "
    INSERT INTO outbox_event (event_id, event_type, payload)
    SELECT gen_random_uuid(), 'OrderPlaced', '{}' FROM generate_series(1, 2)";

/// Whether the server has room for prepared transactions.
async fn can_prepare(stage: &PostgresStage) -> bool {
    let setting = "SELECT current_setting('max_prepared_transactions')::integer >= 16";
    sqlx::query(setting).fetch_one(&mut stage.connection().await).await.unwrap().get(0)
}

/// What a writer does in its round: a transaction that commits, rolls back, goes back to a savepoint, is prepared, or
/// begins long before it writes.
fn transaction(round: usize, writer: usize, can_prepare: bool) -> Vec<String> {
    let pause = "SELECT pg_sleep(random() * 0.02)";
    let name = format!("writer-{writer}-{round}");
    let whole = |inside: &str, end: &str| vec![format!("BEGIN; {inside}; {pause}; {end}")];
    match (round + writer) % 7 {
        0 => whole(INSERT, "ROLLBACK"),
        1 => whole(&format!("SAVEPOINT a; {INSERT}; ROLLBACK TO a; {pause}; {INSERT}"), "COMMIT"),
        2 => whole(&format!("SAVEPOINT a; {INSERT}; RELEASE a; {pause}"), "COMMIT"),
        3 => whole(&format!("SELECT txid_current(); {pause}; {INSERT}; {pause}; {INSERT}"), "COMMIT"),
        4 if can_prepare => vec![
            format!("BEGIN; {INSERT}; {pause}; PREPARE TRANSACTION '{name}'"),
            pause.to_owned(),
            format!("COMMIT PREPARED '{name}'"),
        ],
        5 if can_prepare => {
            vec![
                format!("BEGIN; {INSERT}; PREPARE TRANSACTION '{name}'"),
                format!("ROLLBACK PREPARED '{name}'"),
            ]
        }
        6 => vec![INSERT.to_owned()],
        _ => whole(INSERT, "COMMIT"),
    }
}

/// Rows numbered up to `number`.
async fn rows_up_to(connection: &mut PgConnection, number: i64) -> i64 {
    let count = sqlx::query("SELECT count(*) FROM outbox_event WHERE seq <= $1").bind(number);
    count.fetch_one(connection).await.unwrap().get(0)
}

/// O1: whatever writers do at the same time (late rows, savepoints, rollbacks, prepared transactions where the server
/// has them, a writer in another database), no event appears below a number that was told to be closed.
pub(crate) async fn nothing_appears_below_a_closed_number(stage: &PostgresStage) {
    stage.execute(DAWDLE).await;
    let can_prepare = can_prepare(stage).await;
    if !can_prepare {
        eprintln!("this server has no room for prepared transactions, so there are none in this test");
    }
    let elsewhere = stage.beside().await;
    let mut open_elsewhere = elsewhere.connection().await;
    open_elsewhere.execute(AssertSqlSafe(format!("BEGIN; {INSERT}"))).await.unwrap();
    let (end, writing) = (Instant::now() + STRESS, Arc::new(AtomicUsize::new(WRITERS)));
    for writer in 0..WRITERS {
        let (mut connection, writing) = (stage.connection().await, Arc::clone(&writing));
        tokio::spawn(async move {
            for round in 0.. {
                for sql in transaction(round, writer, can_prepare) {
                    connection.execute(AssertSqlSafe(sql)).await.unwrap();
                }
                if Instant::now() > end {
                    break;
                }
            }
            writing.fetch_sub(1, Ordering::SeqCst);
        });
    }

    let (mut reader, mut told) = (stage.connection().await, Vec::new());
    while writing.load(Ordering::SeqCst) > 0 {
        let closed = stage.store.numbers().await.unwrap().closed;
        told.push((closed, rows_up_to(&mut reader, closed).await));
    }

    for &(closed, rows) in &told {
        assert_eq!(rows_up_to(&mut reader, closed).await, rows, "an event came late, below {closed}");
    }
    let mut numbers: Vec<i64> = told.iter().map(|(closed, _)| *closed).collect();
    assert!(numbers.is_sorted(), "{numbers:?}");
    numbers.dedup();
    assert!(numbers.len() > 3, "the number did not rise: {numbers:?}");
    let highest = stage.store.highest().await.unwrap();
    stage.store.numbers().await.unwrap();
    stage.store.numbers().await.unwrap();
    assert_eq!(stage.store.numbers().await.unwrap().closed, highest, "nobody writes any more");
    open_elsewhere.close().await.unwrap();
    elsewhere.drop_from(stage).await;
}

/// O1: a writer whose transaction is open holds the number, and one that only reads does not.
pub(crate) async fn open_writer_holds_the_closed_number(stage: &PostgresStage) {
    let mut reader = stage.connection().await;
    reader.execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT FROM outbox_event").await.unwrap();
    write(stage, &[order_placed("order-1")]).await;
    let mut open = stage.open().await;
    let late = order_placed("order-2");
    stage.store.insert(PostgresStore::foreign_connection(&mut open), &[late], None).await.unwrap();
    write(stage, &[order_placed("order-3")]).await;

    let mut closed = 0;
    for _ in 0..10 {
        closed = stage.store.numbers().await.unwrap().closed;
    }
    assert_eq!(closed, 0, "it was open when the number was first looked at");
    open.commit().await.unwrap();
    for _ in 0..3 {
        closed = stage.store.numbers().await.unwrap().closed;
    }

    assert_eq!(closed, 3);
}

/// O1: what was known before a connection was lost is forgotten: the server behind the next one may have taken numbers
/// back.
pub(crate) async fn lost_connection_discards_the_closed_number(stage: &PostgresStage) {
    let store = stage.marked().await;
    write(stage, &[order_placed("order-1")]).await;
    store.numbers().await.unwrap();
    assert_eq!(store.numbers().await.unwrap().closed, 1);

    crate::server_faults::cut(stage).await;
    let answer = loop {
        match store.numbers().await {
            Err(StoreError::Unavailable { .. }) => {}
            answer => break answer.unwrap(),
        }
    };

    assert_eq!(answer.closed, 0);
    assert_eq!(store.numbers().await.unwrap().closed, 1);
    store.close().await;
}
