//! Orders, and the event that tells of them.

use pillarbox::{Event, Outbox};
use pillarbox_sqlite::SqliteStore;
use serde::{Deserialize, Serialize};

use crate::refusal::Refusal;

/// What a customer sends.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewOrder {
    item: String,
    quantity: i64,
}

/// Written with each order.
#[derive(Serialize, Deserialize, Event)]
#[event(type = "OrderPlaced", aggregate = "Order")]
pub(crate) struct OrderPlaced {
    #[event(id)]
    pub(crate) id: i64,
    pub(crate) item: String,
    pub(crate) quantity: i64,
}

/// An order as it is stored, and whether its mail has been sent.
#[derive(Serialize)]
pub(crate) struct Order {
    id: i64,
    item: String,
    quantity: i64,
    is_confirmed: bool,
}

/// What a customer gets: the numbers of the order and of its event.
#[derive(Serialize)]
pub(crate) struct Placed {
    pub(crate) id: i64,
    event_id: String,
}

impl NewOrder {
    /// Stores the order and its event in one transaction: both are there, or neither is.
    pub(crate) async fn place(self, outbox: &Outbox<SqliteStore>) -> Result<Placed, Refusal> {
        self.check()?;
        let Self { item, quantity } = self;

        let mut tx = outbox.begin().await?;
        let insert = sqlx::query_scalar("INSERT INTO orders (item, quantity) VALUES (?, ?) RETURNING id");
        let id = insert.bind(&item).bind(quantity).fetch_one(&mut *tx).await?;
        let event_id = outbox.write(&mut tx, OrderPlaced { id, item, quantity }).await?;
        tx.commit().await?;
        Ok(Placed { id, event_id })
    }

    fn check(&self) -> Result<(), Refusal> {
        let length = self.item.chars().count();
        if !(1..=100).contains(&length) {
            let problem = format!("has {length} characters, and must have 1 to 100");
            return Err(Refusal::field("item", problem));
        }
        if !(1..=1_000).contains(&self.quantity) {
            return Err(Refusal::field("quantity", format!("is {}, and must be 1 to 1000", self.quantity)));
        }
        Ok(())
    }
}

impl Order {
    /// The order with this number, if there is one.
    pub(crate) async fn find(store: &SqliteStore, id: i64) -> anyhow::Result<Option<Self>> {
        let select = sqlx::query_as(include_str!("order/find.sql")).bind(id);
        let row: Option<(i64, String, i64, bool)> = select.fetch_optional(store.pool()).await?;
        Ok(row.map(|(id, item, quantity, is_confirmed)| Self { id, item, quantity, is_confirmed }))
    }
}
