//! The program of the README, word for word; a test compares the two and runs it.

#![expect(clippy::print_stdout, reason = "printing is all that this program's listener does")]

use pillarbox::{Delivery, Event, EventError, IntoEvent, ListenerError, Outbox};
use pillarbox_sqlite::SqliteStore;

struct OrderPlaced {
    id: i64,
}

impl IntoEvent for OrderPlaced {
    fn into_event(self) -> Result<Event, EventError> {
        Event::of_json("OrderPlaced", format!(r#"{{"id":{}}}"#, self.id))
    }
}

async fn invoice(order: Delivery) -> Result<(), ListenerError> {
    println!("invoice for {}", order.payload().as_json().unwrap_or("?"));
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let store = SqliteStore::connect("orders.db").await?;
    store.migrate().await?;
    let outbox = Outbox::builder(store).on("OrderPlaced", invoice).start()?;

    let mut tx = outbox.begin().await?;
    sqlx::query("CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY)").execute(&mut *tx).await?;
    let id = sqlx::query_scalar("INSERT INTO orders DEFAULT VALUES RETURNING id").fetch_one(&mut *tx).await?;
    outbox.write(&mut tx, OrderPlaced { id }).await?;
    tx.commit().await?;

    outbox.run(tokio::time::sleep(std::time::Duration::from_millis(500))).await?;
    Ok(())
}
