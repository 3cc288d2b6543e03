//! The program of the README, word for word; a test compares the two and runs it.

#![expect(clippy::print_stdout, reason = "printing is all that this program's listener does")]

use pillarbox::{Delivery, Event, EventError, IntoEvent, ListenerError, Outbox};
use pillarbox_sqlite::SqliteStore;
use std::time::Duration;

struct OrderPlaced {
    id: i64,
}

impl IntoEvent for OrderPlaced {
    fn into_event(self) -> Result<Event, EventError> {
        let json = format!(r#"{{"id":{}}}"#, self.id);
        Event::builder("OrderPlaced").aggregate_id(self.id.to_string()).json_text(json).build()
    }
}

async fn invoice(order: Delivery) -> Result<(), ListenerError> {
    println!("invoice for order {}", order.aggregate_id().unwrap_or("?"));
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let store = SqliteStore::connect("orders.db").await?;
    store.migrate().await?;
    let orders = "CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY)";
    sqlx::query(orders).execute(store.pool()).await?;
    let outbox = Outbox::builder(store).on("OrderPlaced", invoice).start()?;

    let mut tx = outbox.begin().await?;
    let order = sqlx::query("INSERT INTO orders DEFAULT VALUES").execute(&mut *tx).await?;
    outbox.write(&mut tx, OrderPlaced { id: order.last_insert_rowid() }).await?;
    tx.commit().await?;

    // A service waits for its signal to stop here.
    outbox.run(tokio::time::sleep(Duration::from_millis(500))).await;
    Ok(())
}
