//! A server that says nothing any more: nobody waits for it for ever, and its connections are given up.

use std::time::Duration;

use pillarbox::store::{CommitError, EventStore, InsertError, StoreError, TxStore};
use pillarbox_postgres::{PostgresOptions, PostgresStore, PostgresTx};
use pillarbox_testkit::conformance::{order_placed, take, write};
use sqlx::postgres::PgPoolOptions;
use tokio::time::timeout;

use crate::stage::PostgresStage;
use crate::way::Way;

/// Far more than any of these limits.
const PATIENCE: Duration = Duration::from_secs(15);

const GRACE: Duration = Duration::from_millis(100);

/// A store that gives a statement up after half a second: soon enough for a test, and longer than most take on a machine
/// that is busy with others.
fn impatient(options: PostgresOptions, stage: &PostgresStage) -> PostgresOptions {
    options.schema(&stage.schema).statement_timeout(Duration::from_millis(400)).paces(GRACE, PATIENCE)
}

/// An impatient one with one connection for transactions, on a way of its own.
async fn store_on(way: &Way, stage: &PostgresStage) -> PostgresStore {
    let options = impatient(PostgresStore::options(&way.url), stage).max_connections(1);
    options.connect_timeout(Duration::from_secs(2)).connect().await.unwrap()
}

/// A transaction with one event in it, as soon as there is a connection for it that answers.
async fn begun(store: &PostgresStore) -> PostgresTx {
    loop {
        match written(store).await {
            Err(InsertError::Store(error)) if error.is_transient() => {}
            begun => return begun.unwrap(),
        }
    }
}

async fn written(store: &PostgresStore) -> Result<PostgresTx, InsertError> {
    let mut tx = store.begin().await.map_err(InsertError::Store)?;
    store.insert(&mut tx, &[order_placed("order-17")], None).await?;
    Ok(tx)
}

async fn in_time<T>(call: impl Future<Output = T>) -> T {
    timeout(PATIENCE, call).await.expect("it ends in time")
}

/// The only connection for transactions is there again, and not in one. A busy server may keep a commit waiting for longer
/// than the store is patient; then the next one tells.
async fn assert_usable(store: &PostgresStore) {
    in_time(async { while PostgresStore::commit(begun(store).await).await.is_err() {} }).await;
}

/// W5: a commit that nobody answers is not known to have happened.
pub(crate) async fn commit_that_nobody_answers_is_unknown(stage: &PostgresStage) {
    let way = Way::to(&stage.url).await;
    let store = store_on(&way, stage).await;
    let tx = begun(&store).await;

    way.fall_silent();
    let committed = in_time(PostgresStore::commit(tx)).await;
    way.speak_again();

    assert!(matches!(&committed, Err(CommitError::Unknown { .. })), "{committed:?}");
    assert!(committed.unwrap_err().to_string().contains("did not answer"));
    assert_usable(&store).await;
}

/// S3: a rollback that nobody answers is given up, and its connection with it.
pub(crate) async fn rollback_that_nobody_answers_is_given_up(stage: &PostgresStage) {
    let way = Way::to(&stage.url).await;
    let store = store_on(&way, stage).await;
    let tx = begun(&store).await;

    way.fall_silent();
    let rolled_back = in_time(PostgresStore::rollback(tx)).await;
    way.speak_again();

    assert!(matches!(&rolled_back, Err(StoreError::Unavailable { .. })), "{rolled_back:?}");
    assert_usable(&store).await;
}

/// S3: a transaction that was dropped while nobody answers does not keep its connection.
pub(crate) async fn dropped_transaction_that_nobody_answers_is_given_up(stage: &PostgresStage) {
    let way = Way::to(&stage.url).await;
    let store = store_on(&way, stage).await;
    let tx = begun(&store).await;

    way.fall_silent();
    drop(tx);
    way.speak_again();

    assert_usable(&store).await;
}

/// S3: a transaction that begins on a connection of which nobody knows yet that it is silent ends in time, on a pool of
/// the store's own and on one of the user's.
pub(crate) async fn begin_that_nobody_answers_is_given_up(stage: &PostgresStage) {
    let way = Way::to(&stage.url).await;
    let pool = PgPoolOptions::new().max_connections(1).test_before_acquire(false);
    let pool = pool.connect(&way.url).await.unwrap();
    let on_yours = impatient(PostgresStore::options_of_pool(pool), stage);
    let on_yours = on_yours.connect_timeout(Duration::from_secs(1)).connect().await.unwrap();
    let on_ours = store_on(&way, stage).await;
    for store in [&on_yours, &on_ours] {
        assert_usable(store).await;
    }

    way.fall_silent();
    let begun = [in_time(on_yours.begin()).await, in_time(on_ours.begin()).await];
    way.speak_again();

    for begun in begun {
        let error = begun.map(drop).unwrap_err();
        assert!(error.is_transient(), "{error:?}");
    }
    for store in [&on_yours, &on_ours] {
        assert_usable(store).await;
    }
}

/// S3: a connection that never comes back from being released does not keep its place in the pool.
pub(crate) async fn connection_that_is_not_released_is_given_up(stage: &PostgresStage) {
    let pool = PgPoolOptions::new().max_connections(1).after_release(|_, _| Box::pin(std::future::pending()));
    let pool = pool.connect(&stage.url).await.unwrap();
    let store = impatient(PostgresStore::options_of_pool(pool), stage).connect().await.unwrap();

    for _ in 0..2 {
        assert_usable(&store).await;
    }
}

/// S3: a login that the server refuses is not tried twice.
pub(crate) async fn refused_login_is_not_repeated(stage: &PostgresStage) {
    let (role, schema) = (format!("{}_relay", stage.schema), &stage.schema);
    let grants = format!("GRANT USAGE ON SCHEMA {schema} TO {role}; GRANT SELECT ON outbox_meta TO {role}");
    let way = Way::to(&stage.login(&role, &grants).await).await;
    let store = store_on(&way, stage).await;
    stage.execute(format!("ALTER ROLE {role} NOLOGIN")).await;
    let before = way.connections();

    let refused = store.begin().await.map(drop).unwrap_err();

    assert!(refused.to_string().contains("does not let"), "{refused:?}");
    assert_eq!(way.connections() - before, 1);
    store.close().await;
    stage.drop_role(&role).await;
}

/// P3: an outage is no slow look: what was given back meanwhile is found by the next.
pub(crate) async fn outage_is_no_slow_look(stage: &PostgresStage) {
    let way = Way::to(&stage.url).await;
    let store = store_on(&way, stage).await;
    write(stage, &[order_placed("order-1")]).await;
    assert_eq!(store.take(take(1)).await.unwrap().events.len(), 1);
    stage.execute("UPDATE outbox_event SET available_at = now() - interval '1 hour'").await;

    way.fall_silent();
    let failed = in_time(store.take(take(1))).await.map(drop);
    way.speak_again();
    let found = store.take(take(1)).await.unwrap().events;

    assert!(failed.unwrap_err().is_transient());
    assert_eq!(found.len(), 1);
}
