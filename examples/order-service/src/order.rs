//! Orders, and the event that tells of them.

use anyhow::Context;
use pillarbox::store::CommitError;
use pillarbox::{Event, Outbox};
use pillarbox_postgres::PostgresStore;
use serde::{Deserialize, Serialize};

use crate::refusal::Refusal;

const MOST_ITEMS: usize = 100;
const MOST_OF_ONE: i64 = 1_000;
const HIGHEST_PRICE: i64 = 100_000_000;

/// What a customer sends.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct NewOrder {
    customer: String,
    items: Vec<Item>,
}

/// A line of an order.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Item {
    sku: String,
    quantity: i64,
    unit_cents: i64,
}

/// Everything that consumers need: they cannot ask this service for details.
#[derive(Serialize, Deserialize, Event)]
#[event(type = "OrderCreated", aggregate = "Order")]
#[serde(rename_all = "camelCase")]
pub(crate) struct OrderCreated {
    /// The id of the event itself, by which consumers recognise duplicates.
    pub(crate) event_id: String,
    #[event(id)]
    pub(crate) order_id: String,
    customer: String,
    items: Vec<Item>,
    total_cents: i64,
    created_at: String,
}

/// An order as it is stored.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Order {
    order_id: String,
    customer: String,
    items: serde_json::Value,
    total_cents: i64,
    created_at: String,
}

/// Creates the table of orders, unless it is there.
pub(crate) async fn create_tables(store: &PostgresStore) -> anyhow::Result<()> {
    sqlx::raw_sql(include_str!("order/tables.sql"))
        .execute(store.pool())
        .await
        .context("no table of orders")?;
    Ok(())
}

impl NewOrder {
    /// What is wrong with it, by the field, or its total.
    pub(crate) fn check(&self) -> Result<i64, Refusal> {
        check_text("customer", &self.customer, 100)?;
        if !(1..=MOST_ITEMS).contains(&self.items.len()) {
            let problem = format!("has {} items, and must have 1 to {MOST_ITEMS}", self.items.len());
            return Err(Refusal::field("items", problem));
        }
        for (index, item) in self.items.iter().enumerate() {
            check_text(&format!("items[{index}].sku"), &item.sku, 64)?;
            check_number(&format!("items[{index}].quantity"), item.quantity, 1, MOST_OF_ONE)?;
            check_number(&format!("items[{index}].unitCents"), item.unit_cents, 0, HIGHEST_PRICE)?;
        }
        Ok(self.items.iter().map(|item| item.quantity * item.unit_cents).sum())
    }

    /// Stores the order and its event in one transaction: both are there, or neither is.
    pub(crate) async fn place(self, outbox: &Outbox<PostgresStore>) -> Result<OrderCreated, Refusal> {
        let total_cents = self.check()?;
        let Self { customer, items } = self;

        let mut tx = outbox.begin().await?;
        let insert = sqlx::query_as(include_str!("order/insert.sql"))
            .bind(&customer)
            .bind(serde_json::to_string(&items)?)
            .bind(total_cents);
        let (order_id, event_id, created_at) = insert.fetch_one(&mut *tx).await?;
        let created = OrderCreated { event_id, order_id, customer, items, total_cents, created_at };
        outbox.write(&mut tx, Event::of(&created).id(&created.event_id)).await?;
        tx.commit().await.map_err(|error| match error {
            CommitError::RolledBack { .. } => error.into(),
            _ => Refusal::Unknown(format!(
                "the database was lost while it stored the order; look for {} before you order again",
                created.order_id
            )),
        })?;
        Ok(created)
    }
}

/// The order with this id, if there is one.
pub(crate) async fn find(store: &PostgresStore, order_id: &str) -> anyhow::Result<Option<Order>> {
    let select = sqlx::query_as(include_str!("order/find.sql")).bind(order_id);
    let row: Option<(String, String, String, i64, String)> = select.fetch_optional(store.pool()).await?;
    row.map(|(order_id, customer, items, total_cents, created_at)| {
        Ok(Order { order_id, customer, items: serde_json::from_str(&items)?, total_cents, created_at })
    })
    .transpose()
}

fn check_text(field: &str, text: &str, longest: usize) -> Result<(), Refusal> {
    let length = text.chars().count();
    if !(1..=longest).contains(&length) {
        return Err(Refusal::field(field, format!("has {length} characters, and must have 1 to {longest}")));
    }
    if text.chars().any(char::is_control) {
        return Err(Refusal::field(field, "has a control character in it; leave that out"));
    }
    Ok(())
}

fn check_number(field: &str, number: i64, least: i64, most: i64) -> Result<(), Refusal> {
    let fits = (least..=most).contains(&number);
    fits.then_some(())
        .ok_or_else(|| Refusal::field(field, format!("is {number}, and must be {least} to {most}")))
}
