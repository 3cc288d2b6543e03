//! A server that says nothing any more: nobody waits for it for ever.

use std::time::Duration;

use pillarbox::store::{StoreError, TxStore};
use pillarbox_mysql::MySqlStore;
use sqlx::mysql::MySqlPoolOptions;
use tokio::time::timeout;

use crate::stage::MySqlStage;
use crate::way::way_to;

/// Far more than the limit here.
const PATIENCE: Duration = Duration::from_secs(15);

/// What a transaction of ours begins with.
const BEGINNING: &[u8] = b"SAVEPOINT pillarbox_transaction";

/// S11: a transaction of ours that begins on a connection of a pool of the user's which has fallen silent is given up in
/// time, and so is the connection.
pub(crate) async fn begin_that_nobody_answers_is_given_up(stage: &MySqlStage) {
    let server = stage.administrator().database(&stage.database);
    let goes_on = |sent: &[u8]| !sent.windows(BEGINNING.len()).any(|word| word == BEGINNING);
    let way = way_to(server, goes_on).await;
    let pool = MySqlPoolOptions::new().max_connections(1).connect_with(way).await.unwrap();
    let options = MySqlStore::options_of_pool(pool.clone()).connect_timeout(Duration::from_millis(500));
    let store = options.connect().await.unwrap();

    let begun = timeout(PATIENCE, store.begin()).await.expect("it ends in time");

    let error = begun.map(drop).unwrap_err();
    assert!(matches!(&error, StoreError::Unavailable { .. }), "{error:?}");
    assert!(error.to_string().contains("did not answer within 500ms"), "{error}");
    timeout(PATIENCE, sqlx::query("SELECT 1").execute(&pool)).await.expect("there is another").unwrap();
    store.close().await;
}
