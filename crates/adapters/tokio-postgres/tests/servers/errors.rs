//! What goes wrong inside the user's transaction.

use std::error::Error;

use pillarbox::store::StoreError;
use pillarbox::{Event, WriteError};
use pillarbox_testkit::servers::unique_name;
use pillarbox_tokio_postgres::{Names, write_in};

use crate::stage::PostgresStage;

fn placed() -> Event {
    Event::of_json("OrderPlaced", r#"{"secret":"4711"}"#).unwrap()
}

fn store_error(error: WriteError) -> StoreError {
    match error {
        WriteError::Store(error) => error,
        other => panic!("{other:?}"),
    }
}

/// S7: an outbox that was never migrated is called so.
pub(crate) async fn missing_table_is_told(stage: &PostgresStage) {
    let mut client = stage.client().await;
    let tx = client.transaction().await.unwrap();
    let elsewhere = Names::new(Some(&stage.schema), "other_").unwrap();

    let error = write_in(&elsewhere, &tx, [placed()]).await.unwrap_err();

    assert!(matches!(store_error(error), StoreError::NotMigrated));
}

/// A role that may not write is told the table and the grant; the driver's error is the source, once.
pub(crate) async fn missing_privilege_is_told(stage: &PostgresStage) {
    let role = unique_name();
    let mut client = stage.client().await;
    let tx = client.transaction().await.unwrap();
    let become_stranger = format!(
        "CREATE ROLE {role}; GRANT USAGE ON SCHEMA {} TO {role}; SET LOCAL ROLE {role}",
        stage.schema
    );
    tx.batch_execute(&become_stranger).await.unwrap();

    let error = store_error(write_in(&stage.names(), &tx, [placed()]).await.unwrap_err());

    assert!(error.to_string().contains(&format!("may not write to `{}`; grant it INSERT", stage.table())));
    assert!(!error.is_transient());
    let source = error.source().and_then(|source| source.downcast_ref::<tokio_postgres::Error>()).unwrap();
    assert_eq!(source.code().unwrap().code(), "42501");
}

/// V6: INSERT is all that a writer needs. Which of several ids was repeated PostgreSQL tells only to those who
/// may read the table; of a single event it is known.
pub(crate) async fn writer_that_may_not_read_learns_of_a_repeated_id(stage: &PostgresStage) {
    let role = unique_name();
    let (existing, another) = (placed(), placed());
    let mut client = stage.client().await;
    let tx = client.transaction().await.unwrap();
    let become_writer = format!(
        "CREATE ROLE {role};
         GRANT USAGE ON SCHEMA {} TO {role};
         GRANT INSERT ON {} TO {role};
         SET LOCAL ROLE {role};
         SAVEPOINT written",
        stage.schema,
        stage.table()
    );
    tx.batch_execute(&become_writer).await.unwrap();
    let _ = write_in(&stage.names(), &tx, [existing.clone()]).await.unwrap();
    tx.batch_execute("SAVEPOINT written").await.unwrap();

    let alone = write_in(&stage.names(), &tx, [existing.clone()]).await.unwrap_err();
    tx.batch_execute("ROLLBACK TO written").await.unwrap();
    let among_others = write_in(&stage.names(), &tx, [another, existing.clone()]).await.unwrap_err();

    assert!(matches!(alone, WriteError::DuplicateId { id } if id == existing.id()));
    let refused = store_error(among_others);
    assert!(refused.to_string().contains("give every event its own id"), "{refused}");
}

/// A connection that is lost is an error that may pass.
pub(crate) async fn lost_connection_is_told(stage: &PostgresStage) {
    let mut client = stage.client().await;
    let tx = client.transaction().await.unwrap();
    let pid: i32 = tx.query_one("SELECT pg_backend_pid()", &[]).await.unwrap().get(0);
    let other = stage.client().await;
    // Waits until the backend is gone.
    other.execute("SELECT pg_terminate_backend($1, 10000)", &[&pid]).await.unwrap();

    let error = store_error(write_in(&stage.names(), &tx, [placed()]).await.unwrap_err());

    assert!(error.is_transient(), "{error:?}");
}

/// After a statement that failed PostgreSQL takes no event, says why, and nothing of the payload is told.
pub(crate) async fn aborted_transaction_keeps_the_drivers_words(stage: &PostgresStage) {
    let mut client = stage.client().await;
    let tx = client.transaction().await.unwrap();
    tx.batch_execute("SELECT 1 / 0").await.unwrap_err();

    let error = store_error(write_in(&stage.names(), &tx, [placed()]).await.unwrap_err());

    assert!(error.to_string().contains("roll the transaction back"), "{error}");
    let source = error.source().and_then(|source| source.downcast_ref::<tokio_postgres::Error>()).unwrap();
    assert_eq!(source.code().unwrap().code(), "25P02");
    assert!(!format!("{error:?}").contains("4711"));
}
