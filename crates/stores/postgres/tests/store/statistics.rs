//! A census is one look, and a cheap one.

use std::time::Duration;

use pillarbox::store::{Administration, Mode};
use pillarbox_testkit::conformance::ownership::owner_of_all;
use pillarbox_testkit::conformance::{order_placed, write};
use sqlx::{Connection, Executor};

use crate::stage::PostgresStage;
use crate::statements::counted;

/// M5, M6: a census costs the same few statements whatever waits, and fewer where partitions are not owned.
pub(crate) async fn census_is_few_statements(stage: &PostgresStage) {
    stage.store.census().await.unwrap();
    let (_, of_claims) = counted(stage.store.census()).await;
    owner_of_all(stage).await;
    let orders: Vec<_> = (0..300).map(|n| order_placed(&format!("order-{n}"))).collect();
    write(stage, &orders).await;

    let (census, of_owners) = counted(stage.store.census()).await;

    assert_eq!(census.unwrap().pending(), 300);
    // The snapshot, and the COMMIT; the driver does not log BEGIN.
    assert_eq!((of_claims.len(), of_owners.len()), (2 + 2, 2 + 5), "{of_claims:#?} {of_owners:#?}");
}

/// M5: what is counted last belongs to the moment of what was read first.
pub(crate) async fn census_is_one_snapshot(stage: &PostgresStage) {
    stage.store.migrate_to(Mode::Ownership).await.unwrap();
    let mut barrier = stage.connection().await;
    let mut barrier = barrier.begin().await.unwrap();
    barrier.execute("LOCK TABLE outbox_partition IN ACCESS EXCLUSIVE MODE").await.unwrap();
    let store = stage.store.clone();
    let asked = tokio::spawn(async move { store.census().await });
    let waits = "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'outbox_partition'::regclass";
    let mut onlooker = stage.connection().await;
    while sqlx::query_scalar::<_, i64>(waits).fetch_one(&mut onlooker).await.unwrap() == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }

    write(stage, &[order_placed("order-17")]).await;
    barrier.commit().await.unwrap();

    assert_eq!(asked.await.unwrap().unwrap().pending(), 0);
    assert_eq!(stage.store.census().await.unwrap().pending(), 1);
}
