//! Two outboxes in one process, each on a database of its own, with nothing shared.
//!
//! Orders and billing keep their own files. An order that is placed reaches billing through the outbox of
//! orders; billing then writes the invoice and an event of its own, in its own transaction, into its own outbox.
//! An order may reach billing twice, so the invoice carries the id of the event that caused it.

#![expect(clippy::print_stdout, reason = "the program shows what it does")]

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, ensure};
use pillarbox::store::Administration;
use pillarbox::{Delivery, Event, EventError, IntoEvent, Listener, ListenerError, Outbox};
use pillarbox_sqlite::SqliteStore;
use tokio::sync::mpsc;

const ORDERS: i64 = 3;

/// Written by orders.
struct OrderPlaced {
    order: i64,
}

impl IntoEvent for OrderPlaced {
    fn into_event(self) -> Result<Event, EventError> {
        let json = format!(r#"{{"order":{}}}"#, self.order);
        Event::builder("OrderPlaced").aggregate("Order", self.order.to_string()).json_text(json).build()
    }
}

/// Written by billing.
struct InvoiceSent {
    order: String,
}

impl IntoEvent for InvoiceSent {
    fn into_event(self) -> Result<Event, EventError> {
        let json = format!(r#"{{"order":"{}"}}"#, self.order);
        Event::builder("InvoiceSent").aggregate("Invoice", self.order).json_text(json).build()
    }
}

/// Writes invoices for orders, in billing's own database.
struct Billing {
    outbox: Outbox<SqliteStore>,
}

impl Listener for Billing {
    async fn on_event(&self, placed: Delivery) -> Result<(), ListenerError> {
        let order = placed.aggregate_id().unwrap_or_default().to_owned();
        let mut tx = self.outbox.begin().await?;
        let insert = "INSERT INTO invoices (caused_by, order_id) VALUES (?, ?) ON CONFLICT DO NOTHING";
        let invoice = sqlx::query(insert).bind(placed.id()).bind(&order).execute(&mut *tx).await?;
        if invoice.rows_affected() == 0 {
            // This order came before.
            return Ok(());
        }
        self.outbox.write(&mut tx, InvoiceSent { order: order.clone() }).await?;
        tx.commit().await?;
        println!("billing: invoice for order {order} written");
        Ok(())
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let directory = tempfile::tempdir()?;
    let orders = "CREATE TABLE orders (id INTEGER PRIMARY KEY)";
    let orders_db = open(&directory.path().join("orders.db"), orders).await?;
    let invoices = "CREATE TABLE invoices (caused_by TEXT PRIMARY KEY, order_id TEXT NOT NULL)";
    let billing_db = open(&directory.path().join("billing.db"), invoices).await?;

    let (sent, mut invoices) = mpsc::channel(16);
    let archive = move |invoice: Delivery| {
        let sent = sent.clone();
        async move { sent.send(invoice).await.map_err(ListenerError::from) }
    };
    let billing =
        Outbox::builder(billing_db.clone()).on_aggregate("Invoice", "InvoiceSent", archive).start()?;
    let orders = Outbox::builder(orders_db.clone())
        .on_aggregate("Order", "OrderPlaced", Billing { outbox: billing.clone() })
        .start()?;

    for order in 1..=ORDERS {
        let mut tx = orders.begin().await?;
        sqlx::query("INSERT INTO orders (id) VALUES (?)").bind(order).execute(&mut *tx).await?;
        orders.write(&mut tx, OrderPlaced { order }).await?;
        tx.commit().await?;
        println!("orders: order {order} placed");
    }
    for _ in 0..ORDERS {
        let invoice = tokio::time::timeout(Duration::from_secs(10), invoices.recv()).await;
        let invoice = invoice.context("an invoice did not arrive within 10 seconds")?;
        let invoice = invoice.context("billing is gone")?;
        println!("archive: invoice for order {} received", invoice.aggregate_id().unwrap_or_default());
    }

    // Upstream first: billing can still take what orders is delivering.
    orders.close().await;
    billing.close().await;
    check("orders", &orders_db, &orders).await?;
    check("billing", &billing_db, &billing).await?;
    Ok(())
}

/// Opens a database with an outbox, and creates the table that belongs to it.
async fn open(path: &Path, create: &'static str) -> anyhow::Result<SqliteStore> {
    let store = SqliteStore::connect(path.to_string_lossy()).await?;
    store.migrate().await?;
    sqlx::query(create).execute(store.pool()).await?;
    Ok(store)
}

/// Whether an outbox delivered its own events, all of them, and no others.
async fn check(name: &str, store: &SqliteStore, outbox: &Outbox<SqliteStore>) -> anyhow::Result<()> {
    let (stats, highest, counts) = (store.stats().await?, store.highest().await?, outbox.counts());
    ensure!(stats.pending() == 0 && stats.dead == 0, "{name}: not all events were delivered: {stats:?}");
    ensure!(highest == ORDERS, "{name}: {highest} events were written, not {ORDERS}");
    ensure!(counts.done == highest.unsigned_abs(), "{name}: {} events are done, not {highest}", counts.done);
    store.close().await;
    println!("{name}: {} events written, {} delivered, nothing pending", highest, counts.done);
    Ok(())
}
