//! What holds on MySQL and MariaDB alone.

use pillarbox::store::{Administration, StoreError};
use pillarbox::{Event, Timestamp, WriteError};
use pillarbox_mysql::MySqlStore;
use pillarbox_sea_orm::write_in;
use pillarbox_testkit::servers::unique_name;
use sea_orm::{ConnectionTrait, Database, TransactionTrait};
use sqlx::mysql::MySqlConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions};

use crate::stage::Stage;

fn placed() -> Event {
    Event::builder("OrderPlaced").aggregate("Order", "order-17").json_text("{}").build().unwrap()
}

/// Creates a user with the grants that the guide has for a writer, and says with which URL it connects.
async fn create_writer(store: &MySqlStore, user: &str) -> String {
    let names = store.names();
    run(store, format!("CREATE USER '{user}'@'%' IDENTIFIED BY 'seventeen'")).await;
    run(store, format!("GRANT INSERT ON {} TO '{user}'@'%'", names.table("outbox_event"))).await;
    run(store, format!("GRANT SELECT ON {} TO '{user}'@'%'", names.table("outbox_meta"))).await;
    let options = MySqlConnectOptions::clone(&store.pool().connect_options());
    let options = options.username(user).password("seventeen").database(names.schema().unwrap());
    options.to_url_lossy().to_string()
}

async fn run(store: &MySqlStore, sql: String) {
    sqlx::query(AssertSqlSafe(sql)).execute(store.pool()).await.unwrap();
}

/// W12: the grants of the guide for a writer are enough: no column is read, not even for an event that is due later.
pub(crate) async fn writer_who_may_only_insert_writes(stage: &Stage<MySqlStore>) {
    let user = format!("w{}", &unique_name()[3..]);
    let url = create_writer(&stage.store, &user).await;
    let database = Database::connect(url).await.unwrap();
    let tx = database.begin().await.unwrap();
    let later =
        Event::builder("ReminderDue").deliver_after(std::time::Duration::from_secs(60)).json_text("{}");
    let many = (0..501).map(|_| placed());

    let _ = write_in(stage.store.names(), &tx, [placed(), later.build().unwrap()]).await.unwrap();
    let _ = write_in(stage.store.names(), &tx, many).await.unwrap();
    tx.commit().await.unwrap();

    assert_eq!(stage.store.stats().await.unwrap().pending(), 503);
    database.close().await.unwrap();
    run(&stage.store, format!("DROP USER '{user}'@'%'")).await;
}

/// W1, W12: several statements are not run one by one where the transaction has ended unnoticed.
pub(crate) async fn many_events_after_the_end_are_refused(stage: &Stage<MySqlStore>) {
    let tx = stage.begin().await;
    tx.execute_unprepared("ROLLBACK").await.unwrap();

    let refused = write_in(stage.store.names(), &tx, (0..501).map(|_| placed())).await.unwrap_err();

    assert!(matches!(&refused, WriteError::Store(StoreError::Refused { .. })), "{refused:?}");
    assert!(format!("{refused:?}").contains("had ended before"), "{refused:?}");
    assert_eq!(stage.store.stats().await.unwrap().pending(), 0);
}

/// W11, W12: a time that the column cannot hold is refused, and not made another.
pub(crate) async fn time_beyond_the_calendar_is_refused(stage: &Stage<MySqlStore>) {
    let tx = stage.begin().await;
    let wrong = Event::builder("OrderPlaced").occurred_at(Timestamp::from_micros(i64::MAX)).json_text("{}");

    let refused = write_in(stage.store.names(), &tx, [wrong]).await.unwrap_err();

    assert!(format!("{refused:?}").contains("outside the years 1000 to 9999"), "{refused:?}");
}
