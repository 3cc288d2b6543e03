//! What holds on MySQL and MariaDB alone.

use diesel_async::{AsyncConnection, AsyncMysqlConnection, SimpleAsyncConnection};
use pillarbox::store::{Administration, StoreError};
use pillarbox::{Event, Receipt, Timestamp, WriteError};
use pillarbox_diesel::write_in;

use crate::errors::Failure;
use crate::stage::MySqlStage;

fn placed() -> Event {
    Event::builder("OrderPlaced").aggregate("Order", "order-17").json_text("{}").build().unwrap()
}

/// W12: the grants of the guide for a writer are enough: no column is read, not even for an event that is due later.
pub(crate) async fn writer_who_may_only_insert_writes(stage: &MySqlStage) {
    let (user, url) = stage.create_writer().await;
    let mut connection = AsyncMysqlConnection::establish(&url).await.unwrap();
    let later =
        Event::builder("ReminderDue").deliver_after(std::time::Duration::from_secs(60)).json_text("{}");
    let later = later.build().unwrap();

    let written = connection.transaction(async |connection| {
        let _ = write_in(stage.store.names(), connection, [placed(), later]).await?;
        let receipt = write_in(stage.store.names(), connection, (0..501).map(|_| placed())).await?;
        Ok::<Receipt, Failure>(receipt)
    });

    assert_eq!(written.await.unwrap().ids().len(), 501);
    assert_eq!(stage.store.stats().await.unwrap().pending(), 503);
    stage.drop_user(&user).await;
}

/// W1, W12: several statements are not run one by one where the transaction has ended unnoticed.
pub(crate) async fn many_events_after_the_end_are_refused(stage: &MySqlStage) {
    let mut connection = stage.connect().await;

    let refused = connection.transaction(async |connection| {
        connection.batch_execute("ROLLBACK").await?;
        let receipt = write_in(stage.store.names(), connection, (0..501).map(|_| placed())).await?;
        Ok::<Receipt, Failure>(receipt)
    });

    let refused = match refused.await.unwrap_err() {
        Failure::Write(WriteError::Store(refused)) => refused,
        other => panic!("{other:?}"),
    };
    assert!(matches!(&refused, StoreError::Refused { .. }), "{refused:?}");
    assert!(refused.to_string().contains("had ended before"), "{refused}");
    assert_eq!(stage.store.stats().await.unwrap().pending(), 0);
}

/// W11, W12: a time that the column cannot hold is refused, and not made another.
pub(crate) async fn time_beyond_the_calendar_is_refused(stage: &MySqlStage) {
    let mut connection = stage.connect().await;
    let wrong = Event::builder("OrderPlaced").occurred_at(Timestamp::from_micros(i64::MAX)).json_text("{}");

    let refused = connection.transaction(async |connection| {
        write_in(stage.store.names(), connection, [wrong]).await.map_err(Failure::from)
    });

    let refused = format!("{:?}", refused.await.unwrap_err());
    assert!(refused.contains("outside the years 1000 to 9999"), "{refused}");
}
