//! What customers ask for by HTTP.

use axum::extract::rejection::JsonRejection;
use axum::extract::{Path, State};
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::{get, post};
use axum::{Json, Router};
use pillarbox::store::{Administration, Page};
use serde::Serialize;

use crate::order::{self, NewOrder, Order};
use crate::refusal::Refusal;
use crate::status::EventView;
use crate::{Shop, admin};

/// All that can be asked for.
pub(crate) fn router(shop: Shop) -> Router {
    Router::new()
        .route("/orders", post(place))
        .route("/orders/{order_id}", get(show))
        .nest("/admin/outbox", admin::router())
        .with_state(shop)
}

/// What a customer gets.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Placed {
    order_id: String,
    event_id: String,
}

/// An order, and what became of its events.
#[derive(Serialize)]
struct OrderView {
    #[serde(flatten)]
    order: Order,
    events: Vec<EventView>,
}

async fn place(
    State(shop): State<Shop>,
    body: Result<Json<NewOrder>, JsonRejection>,
) -> Result<impl IntoResponse, Refusal> {
    let Json(new_order) = body.map_err(Refusal::Body)?;
    let created = new_order.place(&shop.outbox).await?;
    let location = [(header::LOCATION, format!("/orders/{}", created.order_id))];
    let placed = Placed { order_id: created.order_id, event_id: created.event_id };
    Ok((StatusCode::CREATED, location, Json(placed)))
}

async fn show(State(shop): State<Shop>, Path(order_id): Path<String>) -> Result<Json<OrderView>, Refusal> {
    let order = order::find(&shop.store, &order_id).await?;
    let order = order.ok_or_else(|| Refusal::Missing(format!("there is no order `{order_id}`")))?;
    let rows = shop.store.find_by_aggregate(&order_id, Page { after: 0, limit: 100 }).await?;
    Ok(Json(OrderView { order, events: rows.into_iter().map(EventView::from).collect() }))
}
