//! What can be asked for by HTTP.

use axum::extract::rejection::JsonRejection;
use axum::extract::{Path, State};
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::{get, post};
use axum::{Json, Router};
use pillarbox::store::Administration;
use serde::Serialize;

use crate::Shop;
use crate::mailer::Mail;
use crate::order::{NewOrder, Order};
use crate::refusal::Refusal;

pub(crate) fn router(shop: Shop) -> Router {
    Router::new()
        .route("/orders", post(place))
        .route("/orders/{id}", get(show))
        .route("/mails", get(mails))
        .route("/outbox", get(outbox))
        .with_state(shop)
}

async fn place(
    State(shop): State<Shop>,
    body: Result<Json<NewOrder>, JsonRejection>,
) -> Result<impl IntoResponse, Refusal> {
    let Json(new_order) = body.map_err(Refusal::Body)?;
    let placed = new_order.place(&shop.outbox).await?;
    let location = [(header::LOCATION, format!("/orders/{}", placed.id))];
    Ok((StatusCode::CREATED, location, Json(placed)))
}

async fn show(State(shop): State<Shop>, Path(id): Path<i64>) -> Result<Json<Order>, Refusal> {
    let order = Order::find(&shop.store, id).await?;
    order.map(Json).ok_or_else(|| Refusal::Missing(format!("there is no order {id}")))
}

async fn mails(State(shop): State<Shop>) -> Result<Json<Vec<Mail>>, Refusal> {
    Ok(Json(Mail::newest(&shop.store).await?))
}

/// What is in the table, and what this process has done since it was started.
#[derive(Serialize)]
struct OutboxView {
    pending: u64,
    dead: u64,
    done_estimate: u64,
    delivered_since_start: u64,
    failed_since_start: u64,
}

async fn outbox(State(shop): State<Shop>) -> Result<Json<OutboxView>, Refusal> {
    let (stats, counts) = (shop.store.stats().await?, shop.outbox.counts());
    Ok(Json(OutboxView {
        pending: stats.pending(),
        dead: stats.dead,
        done_estimate: stats.done_estimate,
        delivered_since_start: counts.done,
        failed_since_start: counts.failed,
    }))
}
