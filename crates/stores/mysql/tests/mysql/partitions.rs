//! The partition of a key is the same whoever computes it.

use pillarbox::store::TxStore;
use pillarbox::{Event, partition_of};
use pillarbox_mysql::MySqlStore;
use pillarbox_testkit::partition_vectors::VECTORS;
use sqlx::{Connection, Executor};

use crate::stage::MySqlStage;

async fn partition(stage: &MySqlStage, event_id: &str) -> Option<u8> {
    let query = sqlx::query_scalar("SELECT event_partition FROM outbox_event WHERE event_id = ?");
    query.bind(event_id).fetch_one(stage.store.pool()).await.unwrap()
}

/// W9, W12: a row with a key and no partition gets that of the test vectors, from the trigger.
pub(crate) async fn trigger_agrees_with_the_vectors(stage: &MySqlStage) {
    let insert = "INSERT INTO outbox_event (event_id, event_type, payload, event_key) VALUES (?, 'OrderPlaced', '{}', ?)";
    for (number, (key, _, expected)) in VECTORS.iter().enumerate() {
        let id = format!("event-{number}");

        sqlx::query(insert).bind(&id).bind(key).execute(stage.store.pool()).await.unwrap();

        assert_eq!(partition(stage, &id).await, Some(*expected), "of the key `{key}`");
    }
}

/// W12: the trigger leaves rows alone that have no key, or a partition already.
pub(crate) async fn trigger_leaves_other_rows_alone(stage: &MySqlStage) {
    stage
        .run(
            "INSERT INTO outbox_event (event_id, event_type, payload, event_key, event_partition)
            VALUES ('no-key', 'OrderPlaced', '{}', NULL, NULL), ('placed', 'OrderPlaced', '{}', 'order-17', 3)",
        )
        .await;

    assert_eq!(partition(stage, "no-key").await, None);
    assert_eq!(partition(stage, "placed").await, Some(3));
}

/// W12: a number that is no partition is refused in the strict mode of the server, and becomes one without.
pub(crate) async fn partition_that_is_none_is_not_stored(stage: &MySqlStage) {
    let mut connection = stage.store.pool().acquire().await.unwrap().detach();
    let insert = "INSERT INTO outbox_event (event_id, event_type, payload, event_key, event_partition)
        VALUES ('below', 'OrderPlaced', '{}', 'order-17', -64), ('above', 'OrderPlaced', '{}', 'order-17', 256)";

    connection.execute("SET sql_mode = 'STRICT_TRANS_TABLES'").await.unwrap();
    let refused = connection.execute(insert).await.unwrap_err();
    connection.execute("SET sql_mode = ''").await.unwrap();
    connection.execute(insert).await.unwrap();

    assert!(refused.to_string().contains("Out of range value"), "{refused}");
    assert_eq!([partition(stage, "below").await, partition(stage, "above").await], [Some(0), Some(255)]);
    connection.close().await.unwrap();
}

/// W9: the store writes the partition itself, so that it does without the trigger.
pub(crate) async fn store_writes_the_partition(stage: &MySqlStage) {
    stage.run("DROP TRIGGER outbox_event_partition").await;
    let with_key = Event::builder("OrderPlaced").key("order-17").json_text("{}").build().unwrap();
    let without_key = Event::of_json("OrderPlaced", "{}").unwrap();

    let mut tx = stage.store.begin().await.unwrap();
    stage.store.insert(&mut tx, &[with_key.clone(), without_key.clone()], None).await.unwrap();
    MySqlStore::commit(tx).await.unwrap();

    assert_eq!(partition(stage, with_key.id()).await, Some(partition_of("order-17")));
    assert_eq!(partition(stage, without_key.id()).await, Some(partition_of(without_key.id())));
}
