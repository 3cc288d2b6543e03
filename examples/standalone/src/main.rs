//! An order service in one process, on a SQLite file.
//!
//! It places three orders and gives up a fourth. The events of the three arrive right after their commits; the
//! mailer's server is down twice, so one of them is tried three times. Then the service closes in good order and
//! checks that the books balance.

#![expect(clippy::print_stdout, reason = "the program shows what it does")]

use std::time::Duration;

use anyhow::{Context, ensure};
use pillarbox::store::Administration;
use pillarbox::{Delivery, Event, EventError, IntoEvent, Listener, ListenerError, Outbox, Retry};
use pillarbox_sqlite::SqliteStore;
use tokio::sync::mpsc;

/// What the rest of the company wants to hear about.
struct OrderPlaced {
    order: i64,
    item: &'static str,
}

impl IntoEvent for OrderPlaced {
    fn into_event(self) -> Result<Event, EventError> {
        Event::builder("OrderPlaced")
            .aggregate("Order", format!("order-{}", self.order))
            .json_text(format!(r#"{{"order":{},"item":"{}"}}"#, self.order, self.item))
            .build()
    }
}

/// Confirms orders by mail, through a server that refuses the first two mails about `order-2`.
struct Mailer {
    sent: mpsc::Sender<Delivery>,
}

impl Listener for Mailer {
    async fn on_event(&self, delivery: Delivery) -> Result<(), ListenerError> {
        let order = delivery.aggregate_id().unwrap_or_default().to_owned();
        let attempt = delivery.attempt();
        if order == "order-2" && attempt <= 2 {
            println!("  mail for {order}: the server is down (attempt {attempt})");
            return Err(ListenerError::new("the mail server is down"));
        }
        println!("  mail for {order}: sent (attempt {attempt})");
        self.sent.send(delivery).await?;
        Ok(())
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let directory = tempfile::tempdir()?;
    let path = directory.path().join("orders.db");
    let store = SqliteStore::connect(path.to_string_lossy()).await?;
    store.migrate().await?;
    let create = "CREATE TABLE orders (id INTEGER PRIMARY KEY, item TEXT NOT NULL)";
    sqlx::query(create).execute(store.pool()).await?;

    let (sent, mut mails) = mpsc::channel(16);
    let outbox = Outbox::builder(store.clone())
        .on_aggregate("Order", "OrderPlaced", Mailer { sent })
        .retry(Retry::exponential().initial(Duration::from_millis(50)).max_attempts(5))
        .start()?;

    for item in ["teapot", "kettle", "cup"] {
        let order = place(&outbox, item).await?;
        println!("order-{order} placed: {item}");
    }
    give_up(&outbox, "samovar").await?;
    println!("one order given up: its transaction was rolled back");

    for _ in 0..3 {
        let mail = tokio::time::timeout(Duration::from_secs(10), mails.recv()).await;
        mail.context("a mail did not arrive within 10 seconds")?.context("the mailer is gone")?;
    }
    outbox.close().await;
    println!("closed");

    check(&store, &outbox).await?;
    store.close().await;
    println!("3 orders, 3 mails, 2 failed attempts, nothing pending, nothing dead");
    Ok(())
}

/// Places an order: the row and its event are committed together.
async fn place(outbox: &Outbox<SqliteStore>, item: &'static str) -> anyhow::Result<i64> {
    let mut tx = outbox.begin().await?;
    let row = sqlx::query("INSERT INTO orders (item) VALUES (?)").bind(item).execute(&mut *tx).await?;
    let order = row.last_insert_rowid();
    outbox.write(&mut tx, OrderPlaced { order, item }).await?;
    tx.commit().await?;
    Ok(order)
}

/// Begins to place an order, and changes its mind: neither the row nor its event exists.
async fn give_up(outbox: &Outbox<SqliteStore>, item: &'static str) -> anyhow::Result<()> {
    let mut tx = outbox.begin().await?;
    let row = sqlx::query("INSERT INTO orders (item) VALUES (?)").bind(item).execute(&mut *tx).await?;
    outbox.write(&mut tx, OrderPlaced { order: row.last_insert_rowid(), item }).await?;
    tx.rollback().await?;
    Ok(())
}

/// Whether all that was committed was delivered once, and nothing else.
async fn check(store: &SqliteStore, outbox: &Outbox<SqliteStore>) -> anyhow::Result<()> {
    let (stats, counts) = (store.stats().await?, outbox.counts());
    ensure!(stats.pending() == 0, "{} events are still pending", stats.pending());
    ensure!(stats.dead == 0, "{} events are dead", stats.dead);
    ensure!(counts.done == 3, "{} events are done, not 3", counts.done);
    ensure!(counts.failed == 2, "{} attempts failed, not 2", counts.failed);
    Ok(())
}
