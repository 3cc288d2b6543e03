//! Behind a pooler in transaction mode.

use std::time::Duration;

use pillarbox::store::{EventStore, TxStore, WakeUp};
use pillarbox::{Outbox, PartitionSet};
use pillarbox_postgres::PostgresStore;
use pillarbox_testkit::acceptance::Desk;
use pillarbox_testkit::conformance::{StoreHarness, claim, order_placed, take, write};
use pillarbox_testkit::servers::unique_name;
use sqlx::{Connection, Executor, PgConnection, Row};
use tokio::time::timeout;

use crate::isolation::{STEPS, WITNESS, levels_of_steps, write_and_take};
use crate::pooled::PooledStage;

/// A database behind the pooler whose sessions nobody else uses: its URL and its name.
async fn database(stage: &PooledStage) -> (String, String) {
    let name = unique_name();
    stage.execute(format!("CREATE DATABASE {name}")).await;
    (format!("{}/{name}", stage.url.rsplit_once('/').unwrap().0), name)
}

async fn drop_database(stage: &PooledStage, name: &str) {
    stage.execute(format!("DROP DATABASE {name} WITH (FORCE)")).await;
}

/// S3: without being told, the store says that a pooler mixes up its statements, and what to do about it.
pub(crate) async fn pooler_that_was_not_told_of_is_named(stage: &PooledStage) {
    let (url, name) = database(stage).await;
    let mut stores = Vec::new();
    let refused = loop {
        match PostgresStore::connect(&url).await {
            Err(error) => break error,
            Ok(store) => match store.migrate().await {
                Err(error) => break error,
                Ok(_) => stores.push(store),
            },
        }
    };

    assert!(refused.to_string().contains("set `pooled(true)`"), "{refused}");
    for store in stores {
        store.close().await;
    }
    drop_database(stage, &name).await;
}

/// S4: the URL alone can say that there is a pooler.
pub(crate) async fn url_tells_of_the_pooler(stage: &PooledStage) {
    let url = format!("{}?statement-cache-capacity=0", stage.url);
    write(stage, &["order-1", "order-2", "order-3"].map(order_placed)).await;

    let stores = [0; 3].map(|_| PostgresStore::options(&url).schema(&stage.schema).connect());
    for store in stores {
        let store = store.await.unwrap();
        assert_eq!(store.take(take(1)).await.unwrap().events.len(), 1);
        store.close().await;
    }
}

/// P5: events of another process are delivered by polling, as nobody can listen.
pub(crate) async fn events_of_others_are_found_by_polling(stage: &PooledStage) {
    let (listener, mut desk) = Desk::open();
    let relay = Outbox::builder(PostgresStore::clone(stage.store()))
        .on_aggregate("Order", "OrderPlaced", listener)
        .poller_only()
        .poll_every(Duration::from_millis(20))
        .start()
        .unwrap();
    let event = order_placed("order-17");
    write(stage, std::slice::from_ref(&event)).await;

    let delivered = timeout(Duration::from_secs(10), desk.accept()).await.expect("it is delivered");

    assert_eq!(delivered.id(), event.id());
    stage.store().announce(PartitionSet::ALL).await;
    assert!(timeout(Duration::from_millis(50), stage.store().changed()).await.is_err());
    relay.close().await;
}

/// P5: outboxes on clones of one store wake each other without LISTEN.
pub(crate) async fn clones_wake_each_other_behind_the_pooler(stage: &PooledStage) {
    let clone = PostgresStore::clone(stage.store());
    assert!(timeout(Duration::ZERO, clone.changed()).await.is_err());

    stage.store().announce(PartitionSet::ALL).await;

    timeout(Duration::from_secs(10), clone.changed()).await.expect("it is woken");
    assert!(
        timeout(Duration::from_millis(50), stage.store().changed()).await.is_err(),
        "its own news are none"
    );
}

/// P5: who writes through the pooler wakes those who listen past it.
pub(crate) async fn announcements_pass_the_pooler(stage: &PooledStage) {
    let direct = PostgresStore::options(&stage.direct_url).schema(&stage.schema).connect().await.unwrap();
    timeout(Duration::from_secs(10), direct.changed()).await.expect("LISTEN is set up");

    stage.store().announce(PartitionSet::ALL).await;

    timeout(Duration::from_secs(10), direct.changed()).await.expect("it is woken");
    direct.close().await;
}

/// S3: nothing of ours is left in the sessions that others use after us.
pub(crate) async fn sessions_of_others_stay_as_they_were(stage: &PooledStage) {
    write(stage, &[order_placed("order-17")]).await;
    claim(stage, 10).await;
    let settings = "SELECT current_setting('statement_timeout'), current_setting('plan_cache_mode'),
        current_setting('enable_sort'), (SELECT count(*) FROM pg_prepared_statements WHERE name <> '')";

    let pool = stage.store().pool();
    let mut transactions = Vec::new();
    for _ in 0..4 {
        transactions.push(pool.begin().await.unwrap());
    }

    for tx in &mut transactions {
        let row = sqlx::query(settings).persistent(false).fetch_one(&mut **tx).await.unwrap();
        let seen: (String, String, String, i64) = (row.get(0), row.get(1), row.get(2), row.get(3));
        assert_eq!(seen, ("0".to_owned(), "auto".to_owned(), "on".to_owned(), 0));
    }
}

/// A server without TLS is refused where TLS is asked for.
pub(crate) async fn missing_tls_is_named(stage: &PooledStage) {
    let refused = PostgresStore::connect(format!("{}?sslmode=require", stage.url)).await.unwrap_err();

    assert!(refused.to_string().contains("no encrypted connection to `"), "{refused}");
    assert!(refused.to_string().contains("`sslmode`") && !refused.is_transient(), "{refused}");
}

/// S5, W1: transactions of a store behind a pooler, and all its steps, are READ COMMITTED whatever the database's
/// default is.
pub(crate) async fn defaults_of_the_database_are_ignored(stage: &PooledStage) {
    let (url, name) = database(stage).await;
    let serializable = format!("ALTER DATABASE {name} SET default_transaction_isolation = 'serializable'");
    stage.execute(serializable).await;
    let store = PostgresStore::options(url).pooled(true).connect().await.unwrap();
    store.migrate().await.unwrap();

    let mut tx = store.begin().await.unwrap();
    let level = sqlx::query_scalar("SELECT current_setting('transaction_isolation')").persistent(false);
    let level: String = level.fetch_one(&mut *tx).await.unwrap();
    PostgresStore::rollback(tx).await.unwrap();
    let (taken, born) = write_and_take(&store).await;
    let direct_url = format!("{}/{name}", stage.direct_url.rsplit_once('/').unwrap().0);
    let mut user = PgConnection::connect(&direct_url).await.unwrap();
    user.execute(WITNESS).await.unwrap();
    let levels = levels_of_steps(&store, &mut user, &taken, &born).await;

    assert_eq!(level, "read committed");
    assert_eq!(levels, STEPS.map(|step| (step, vec!["read committed".to_owned()])));
    store.close().await;
    drop_database(stage, &name).await;
}
