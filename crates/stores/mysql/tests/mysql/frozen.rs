//! A take that stops in the middle, or fails, stands in nobody's way for long.

use std::time::Duration;

use pillarbox::store::{EventStore, StoreError};
use pillarbox_mysql::MySqlStore;
use pillarbox_testkit::conformance::{order_placed, take, write};
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, Executor};
use tokio::time::timeout;

use crate::stage::MySqlStage;
use crate::way::way_to;

/// More than the server waits for a silent process, and less than it waits for an idle connection.
const PATIENCE: Duration = Duration::from_secs(20);

/// A store that is stopped after its first claim, before it commits it.
async fn store_that_freezes(stage: &MySqlStage) -> MySqlStore {
    let server = stage.administrator().database(&stage.database);
    let way = way_to(server, |sent| !sent.windows(7).any(|word| word == b"COMMIT ")).await;
    MySqlStore::connect(way.to_url_lossy().to_string()).await.unwrap()
}

/// How many rows nobody has locked.
async fn free_rows(stage: &MySqlStage) -> i64 {
    stage.number("SELECT COUNT(*) FROM (SELECT seq FROM outbox_event FOR UPDATE SKIP LOCKED) AS free").await
}

/// O5, S5: while a take hangs before its commit, events are written beside its rows, for it locks no gaps; its rows
/// are free for others when the server has heard nothing of it for some seconds.
pub(crate) async fn take_that_stopped_frees_its_rows(stage: &MySqlStage) {
    write(stage, &["order-1", "order-2"].map(order_placed)).await;
    let frozen = store_that_freezes(stage).await;
    let stopped = tokio::spawn(async move { frozen.take(take(10)).await });
    let mut looking = stage.connection().await;
    looking.execute("SET SESSION innodb_lock_wait_timeout = 1").await.unwrap();
    let locked = async { while free_rows(stage).await > 0 {} };
    timeout(PATIENCE, locked).await.expect("the take has its rows");

    let beside =
        "INSERT INTO outbox_event (event_id, event_type, payload) VALUES ('beside', 'OrderPlaced', '{}')";
    looking.execute(beside).await.expect("there is room beside the rows that were taken");
    let mut taken = Vec::new();
    let all = async {
        while taken.len() < 3 {
            taken.extend(stage.store.take(take(10)).await.unwrap().events);
        }
    };
    timeout(PATIENCE, all).await.expect("the server has given up on the one that stopped");

    stopped.abort();
    assert_eq!(taken.len(), 3);
}

/// What takes on the stage's database are let in by.
const TURN: &str = "CONCAT('pillarbox takes ', MD5(CONCAT(DATABASE(), '.')))";

/// Whether a take has its turn.
async fn is_somebodys_turn(stage: &MySqlStage) -> bool {
    stage.number(&format!("SELECT IS_USED_LOCK({TURN}) IS NOT NULL")).await == 1
}

/// P2, O5: takes of several stores are let in one at a time. One that was stopped meanwhile delays another, and keeps
/// nothing from it but the rows that it has taken.
pub(crate) async fn take_that_stopped_delays_the_next_only(stage: &MySqlStage) {
    write(stage, &["order-1", "order-2"].map(order_placed)).await;
    let frozen = store_that_freezes(stage).await;
    let stopped = tokio::spawn(async move { frozen.take(take(1)).await });
    let locked = async { while free_rows(stage).await > 1 {} };
    timeout(PATIENCE, locked).await.expect("the take has its row");

    let store = stage.store.clone();
    let next = tokio::spawn(async move { store.take(take(10)).await });
    let waits = "SELECT COUNT(*) FROM information_schema.processlist
        WHERE db = DATABASE() AND state = 'User lock'";
    let waiting = async { while stage.number(waits).await == 0 {} };
    timeout(PATIENCE, waiting).await.expect("the next waits for its turn");
    let taken = timeout(PATIENCE, next).await.expect("it does not wait for long").unwrap().unwrap();

    assert_eq!(taken.events.len(), 1, "what is not locked is taken at once");
    assert_eq!(free_rows(stage).await, 1, "the server has not given up on the one that stopped");
    assert!(is_somebodys_turn(stage).await, "nor taken its turn away");
    stopped.abort();
}

/// P2: a take that fails does not keep its turn.
pub(crate) async fn take_that_fails_gives_its_turn_back(stage: &MySqlStage) {
    stage.run("RENAME TABLE outbox_event TO elsewhere").await;

    let failed = stage.store.take(take(10)).await.unwrap_err();
    let given_back = async { while is_somebodys_turn(stage).await {} };
    // Less than the time after which the server closes a silent connection.
    timeout(Duration::from_secs(4), given_back).await.expect("it is nobody's turn");

    assert!(matches!(failed, StoreError::NotMigrated), "{failed:?}");
    stage.run("RENAME TABLE elsewhere TO outbox_event").await;
    stage.store.take(take(10)).await.unwrap();
    assert!(!is_somebodys_turn(stage).await, "nor does one that succeeds");
}

/// P2: waiting for its turn is no statement that takes too long, however little time those are given.
pub(crate) async fn wait_for_a_turn_is_no_error(stage: &MySqlStage) {
    write(stage, &[order_placed("order-17")]).await;
    let store = stage.options().statement_timeout(Duration::from_millis(300)).connect().await.unwrap();
    let mut holder = stage.connection().await;
    holder.execute(AssertSqlSafe(format!("DO GET_LOCK({TURN}, 0)"))).await.unwrap();

    let taken = store.take(take(10)).await.unwrap().events;

    assert_eq!(taken.len(), 1);
    assert!(is_somebodys_turn(stage).await);
    holder.close().await.unwrap();
    store.close().await;
}
