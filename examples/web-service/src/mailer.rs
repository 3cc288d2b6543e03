//! Confirms orders, by mails that it keeps in a table.

use pillarbox::{Delivery, Handler, ListenerError};
use pillarbox_sqlite::SqliteStore;
use serde::Serialize;

use crate::order::OrderPlaced;

/// Gets every order that was placed, after its commit.
pub(crate) struct Mailer {
    pub(crate) store: SqliteStore,
}

/// A mail that was sent.
#[derive(Serialize)]
pub(crate) struct Mail {
    event_id: String,
    order_id: i64,
    text: String,
    attempt: i64,
}

impl Handler<OrderPlaced> for Mailer {
    /// `Err`, or a panic, has it called again after a while; `Ok` never, unless the process dies right here.
    async fn handle(&self, order: OrderPlaced, delivery: Delivery) -> Result<(), ListenerError> {
        let text = format!("Your order {}: {} × {}. Thank you!", order.id, order.quantity, order.item);
        let insert = "INSERT INTO mails (event_id, order_id, text, attempt) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING";
        let insert =
            sqlx::query(insert).bind(delivery.id()).bind(order.id).bind(text).bind(delivery.attempt());
        insert.execute(self.store.pool()).await?;
        tracing::info!(order = order.id, "confirmed");
        Ok(())
    }
}

impl Mail {
    /// The newest, a hundred at most.
    pub(crate) async fn newest(store: &SqliteStore) -> anyhow::Result<Vec<Self>> {
        let select = "SELECT event_id, order_id, text, attempt FROM mails ORDER BY rowid DESC LIMIT 100";
        let rows: Vec<(String, i64, String, i64)> = sqlx::query_as(select).fetch_all(store.pool()).await?;
        Ok(rows
            .into_iter()
            .map(|(event_id, order_id, text, attempt)| Self { event_id, order_id, text, attempt })
            .collect())
    }
}
