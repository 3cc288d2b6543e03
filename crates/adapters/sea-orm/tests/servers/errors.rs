//! What goes wrong inside the user's transaction.

use std::error::Error;

use pillarbox::store::StoreError;
use pillarbox::{Event, Store, WriteError};
use pillarbox_sea_orm::{Names, Tables, write_in};
use sea_orm::DbErr;

use crate::stage::Stage;

fn placed() -> Event {
    Event::of_json("OrderPlaced", "{}").unwrap()
}

/// S7: an outbox that was never migrated is called so.
pub(crate) async fn missing_table_is_told<S: Store + Tables>(stage: &Stage<S>) {
    let tx = stage.begin().await;
    let elsewhere = Names::new(stage.store.names().schema(), "other_").unwrap();

    let error = write_in(&elsewhere, &tx, [placed()]).await.unwrap_err();

    assert!(matches!(error, WriteError::Store(StoreError::NotMigrated)), "{error:?}");
}

/// Two transactions that wait for each other: one is the victim and learns that trying again helps, in the
/// driver's words too; the other goes on.
pub(crate) async fn deadlock_may_be_tried_again<S: Store + Tables>(stage: &Stage<S>) {
    let (first, second) = (placed(), placed());
    let (one, other) = (stage.begin().await, stage.begin().await);
    let tables = stage.store.names();
    let _ = write_in(tables, &one, [first.clone()]).await.unwrap();
    let _ = write_in(tables, &other, [second.clone()]).await.unwrap();

    // The victim gives its locks up at once, and its id is free for the other.
    let (crossed, crossed_too) =
        tokio::join!(write_in(tables, &one, [second]), write_in(tables, &other, [first]));

    let victim = match (crossed, crossed_too) {
        (Err(WriteError::Store(error)), Ok(_)) | (Ok(_), Err(WriteError::Store(error))) => error,
        answers => panic!("{answers:?}"),
    };
    assert!(victim.is_transient(), "{victim:?}");
    assert!(victim.source().is_some_and(|source| source.is::<DbErr>()));
}
