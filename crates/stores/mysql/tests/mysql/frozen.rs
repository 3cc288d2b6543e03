//! A process that stops in the middle of a take stands in nobody's way for long.

use std::time::Duration;

use pillarbox::store::EventStore;
use pillarbox_mysql::MySqlStore;
use pillarbox_testkit::conformance::{order_placed, take, write};
use sqlx::mysql::MySqlSslMode;
use sqlx::{ConnectOptions, Executor};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

use crate::stage::MySqlStage;

/// More than the server waits for a silent process, and less than it waits for an idle connection.
const PATIENCE: Duration = Duration::from_secs(20);

/// A way to the server on which everything stops at the first COMMIT: that is how a process looks that was stopped
/// after its claim.
async fn way_that_freezes(server: String) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        loop {
            let (from_store, _) = listener.accept().await.unwrap();
            tokio::spawn(pass_on(from_store, TcpStream::connect(server.clone()).await.unwrap()));
        }
    });
    port
}

async fn pass_on(store: TcpStream, server: TcpStream) {
    let (mut from_store, mut to_store) = store.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    tokio::spawn(async move { tokio::io::copy(&mut from_server, &mut to_store).await });
    let mut bytes = [0; 16_384];
    while let Ok(count @ 1..) = from_store.read(&mut bytes).await {
        if bytes[..count].windows(7).any(|word| word == b"COMMIT;") {
            std::future::pending::<()>().await;
        }
        if to_server.write_all(&bytes[..count]).await.is_err() {
            return;
        }
    }
}

/// O5, S5: while a take hangs before its commit, events are written beside its rows, for it locks no gaps; its rows
/// are free for others when the server has heard nothing of it for some seconds.
pub(crate) async fn take_that_stopped_frees_its_rows(stage: &MySqlStage) {
    write(stage, &["order-1", "order-2"].map(order_placed)).await;
    let server = stage.administrator();
    let port = way_that_freezes(format!("{}:{}", server.get_host(), server.get_port())).await;
    let url = server.port(port).ssl_mode(MySqlSslMode::Disabled).database(&stage.database).to_url_lossy();
    let frozen = MySqlStore::connect(url.to_string()).await.unwrap();
    let stopped = tokio::spawn(async move { frozen.take(take(10)).await });
    let mut looking = stage.connection().await;
    looking.execute("SET SESSION innodb_lock_wait_timeout = 1").await.unwrap();
    let is_locked = "SELECT COUNT(*) FROM (SELECT seq FROM outbox_event FOR UPDATE SKIP LOCKED) AS free";
    let locked = async { while stage.number(is_locked).await > 0 {} };
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
