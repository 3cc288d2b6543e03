//! The program of the README, word for word; a test compares the two and runs it.

#![expect(clippy::print_stdout, reason = "printing is all that this program's listener does")]

use pillarbox::{Event, Handlers, ListenerError, Outbox};
use pillarbox_sqlite::SqliteStore;
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize, Event)]
#[event(type = "OrderPlaced")]
struct OrderPlaced {
    id: i64,
}

async fn invoice(order: OrderPlaced) -> Result<(), ListenerError> {
    println!("invoice for order {}", order.id);
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let store = SqliteStore::connect("orders.db").await?;
    store.migrate().await?;
    let outbox = Outbox::builder(store).handlers(Handlers::new().on("invoice", invoice)).start()?;

    let mut tx = outbox.begin().await?;
    sqlx::query("CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY)").execute(&mut *tx).await?;
    let id = sqlx::query_scalar("INSERT INTO orders DEFAULT VALUES RETURNING id").fetch_one(&mut *tx).await?;
    outbox.write(&mut tx, OrderPlaced { id }).await?;
    tx.commit().await?;

    outbox.run(tokio::time::sleep(std::time::Duration::from_millis(500))).await?;
    Ok(())
}
