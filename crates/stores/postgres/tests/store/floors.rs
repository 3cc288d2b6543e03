//! The closed number: nothing ever appears below it.

use std::time::{Duration, Instant};

use pillarbox::store::{Administration, Ownership, StoreError, TxStore};
use pillarbox_postgres::PostgresStore;
use pillarbox_testkit::conformance::{StoreHarness, order_placed, write};
use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, Connection, Executor};
use tokio::task::JoinSet;

use crate::stage::PostgresStage;

const WRITERS: usize = 8;

/// How many do so in another database, to a table of the same name and number.
const WRITERS_ELSEWHERE: usize = 3;

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

/// Whether the server has room for prepared transactions. In CI it must have.
async fn can_prepare(stage: &PostgresStage) -> bool {
    let setting = "SELECT current_setting('max_prepared_transactions')::integer >= 16";
    let has_room: bool = sqlx::query_scalar(setting).fetch_one(&mut stage.connection().await).await.unwrap();
    if !has_room {
        let missing =
            "this server has no room for prepared transactions: `max_prepared_transactions` is below 16";
        assert!(std::env::var("CI").as_deref() != Ok("true"), "{missing}");
        eprintln!("{missing}, so there are none in this test");
    }
    has_room
}

/// What a writer does in its round: a transaction that commits, rolls back, goes back to a savepoint, is prepared, or
/// begins long before it writes.
///
/// A prepared one is known to the whole server by its name, which begins with `mark`.
fn transaction(round: usize, writer: usize, mark: Option<&str>) -> Vec<String> {
    let pause = "SELECT pg_sleep(random() * 0.02)";
    let (can_prepare, mark) = (mark.is_some(), mark.unwrap_or_default());
    let name = format!("{mark}-{writer}-{round}");
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
    let count = sqlx::query_scalar("SELECT count(*) FROM outbox_event WHERE seq <= $1").bind(number);
    count.fetch_one(connection).await.unwrap()
}

/// Starts `writers`, whose transactions have names that begin with `mark` if they can be prepared.
async fn start(writers: usize, stage: &PostgresStage, mark: Option<String>) -> JoinSet<()> {
    let (end, mut writing) = (Instant::now() + STRESS, JoinSet::new());
    for writer in 0..writers {
        let (mut connection, mark) = (stage.connection().await, mark.clone());
        writing.spawn(async move {
            for round in 0.. {
                for sql in transaction(round, writer, mark.as_deref()) {
                    connection.execute(AssertSqlSafe(sql)).await.unwrap();
                }
                if Instant::now() > end {
                    break;
                }
            }
        });
    }
    writing
}

/// Whether somebody still writes; a writer that failed fails the test.
fn is_going_on(writing: &mut JoinSet<()>) -> bool {
    while let Some(ended) = writing.try_join_next() {
        ended.expect("the writer comes to its end");
    }
    !writing.is_empty()
}

/// O1: whatever writers do at the same time (late rows, savepoints, rollbacks, prepared transactions where the server
/// has them), and whoever writes in a copy of the database, no event appears below a number that was told to be closed.
pub(crate) async fn nothing_appears_below_a_closed_number(stage: &PostgresStage) {
    let can_prepare = can_prepare(stage).await;
    let [here, elsewhere] = stage.twins_beside().await;
    for twin in [&here, &elsewhere] {
        twin.execute(DAWDLE).await;
    }
    let mut open_elsewhere = elsewhere.connection().await;
    open_elsewhere.execute(AssertSqlSafe(format!("BEGIN; {INSERT}"))).await.unwrap();
    let mark = |twin: &str| can_prepare.then(|| format!("{}-{twin}", stage.schema));
    let mut writing = start(WRITERS, &here, mark("here")).await;
    let writing_elsewhere = start(WRITERS_ELSEWHERE, &elsewhere, mark("elsewhere")).await;

    let (mut reader, mut told) = (here.connection().await, Vec::new());
    while is_going_on(&mut writing) {
        let closed = here.store.numbers().await.unwrap().closed;
        told.push((closed, rows_up_to(&mut reader, closed).await));
    }

    for &(closed, rows) in &told {
        assert_eq!(rows_up_to(&mut reader, closed).await, rows, "an event came late, below {closed}");
    }
    let mut numbers: Vec<i64> = told.iter().map(|(closed, _)| *closed).collect();
    assert!(numbers.is_sorted(), "{numbers:?}");
    numbers.dedup();
    assert!(numbers.len() > 3, "the number did not rise: {numbers:?}");
    let highest = here.store.highest().await.unwrap();
    here.store.numbers().await.unwrap();
    here.store.numbers().await.unwrap();
    assert_eq!(here.store.numbers().await.unwrap().closed, highest, "nobody writes here any more");
    writing_elsewhere.join_all().await;
    elsewhere.drop_from(stage).await;
    here.drop_from(stage).await;
}

/// O1: a writer whose transaction is prepared holds the number until somebody ends it, whether it was prepared before
/// the number was first looked at or after.
pub(crate) async fn prepared_writer_holds_the_closed_number(stage: &PostgresStage) {
    if !can_prepare(stage).await {
        return;
    }
    let name = |writer: &str| format!("'{}-{writer}'", stage.schema);
    let (mut early, mut late) = (stage.connection().await, stage.connection().await);
    let prepared = format!("BEGIN; {INSERT}; PREPARE TRANSACTION {}", name("early"));
    early.execute(AssertSqlSafe(prepared)).await.unwrap();
    late.execute(AssertSqlSafe(format!("BEGIN; {INSERT}"))).await.unwrap();
    write(stage, &[order_placed("order-5")]).await;

    assert_eq!(closed_after_looks(stage).await, 0, "one is prepared, the other open");
    late.execute(AssertSqlSafe(format!("PREPARE TRANSACTION {}", name("late")))).await.unwrap();
    late.close().await.unwrap();
    assert_eq!(closed_after_looks(stage).await, 0, "both are prepared");
    stage.execute(format!("COMMIT PREPARED {}", name("early"))).await;
    assert_eq!(closed_after_looks(stage).await, 0, "the other is prepared still");
    stage.execute(format!("ROLLBACK PREPARED {}", name("late"))).await;

    assert_eq!(closed_after_looks(stage).await, 5);
}

/// The closed number, when the store has looked as often as it takes.
async fn closed_after_looks(stage: &PostgresStage) -> i64 {
    for _ in 0..5 {
        stage.store.numbers().await.unwrap();
    }
    stage.store.numbers().await.unwrap().closed
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
