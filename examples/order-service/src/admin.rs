//! What an operator asks for by HTTP: what FAILED, and to have it tried again.
//!
//! Anybody who reaches it may use it: leave it on loopback, or put your own authentication before it.

use axum::extract::{Path, Query, State};
use axum::routing::{get, post};
use axum::{Json, Router};
use pillarbox::store::{Administration, Page, Selection};
use serde::{Deserialize, Serialize};

use crate::Shop;
use crate::refusal::Refusal;
use crate::status::{EventView, word};

const PAGE: usize = 100;

pub(crate) fn router() -> Router<Shop> {
    Router::new()
        .route("/", get(counts))
        .route("/failed", get(failed))
        .route("/{event_id}", get(show))
        .route("/{event_id}/replay", post(replay))
}

/// Where a listing goes on.
#[derive(Deserialize)]
struct Behind {
    #[serde(default)]
    after: i64,
}

/// How many events there are of each status.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Counts {
    new: u64,
    failed: u64,
    /// An estimate, for rows that are done are not counted one by one.
    sent_about: u64,
    oldest_due_seconds: Option<f64>,
}

async fn counts(State(shop): State<Shop>) -> Result<Json<Counts>, Refusal> {
    let stats = shop.store.stats().await?;
    Ok(Json(Counts {
        new: stats.pending(),
        failed: stats.dead,
        sent_about: stats.done_estimate,
        oldest_due_seconds: stats.oldest_due_for.map(|due| due.as_secs_f64()),
    }))
}

/// A page of what FAILED.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Failed {
    events: Vec<EventView>,
    next_after: Option<i64>,
}

async fn failed(State(shop): State<Shop>, Query(behind): Query<Behind>) -> Result<Json<Failed>, Refusal> {
    let rows = shop.store.dead(Page { after: behind.after, limit: PAGE }).await?;
    let next_after = rows.last().filter(|_| rows.len() == PAGE).map(|row| row.seq);
    Ok(Json(Failed { events: rows.into_iter().map(EventView::from).collect(), next_after }))
}

async fn show(State(shop): State<Shop>, Path(event_id): Path<String>) -> Result<Json<EventView>, Refusal> {
    let row = shop.store.find(&event_id).await?;
    row.map(|row| Json(row.into())).ok_or_else(|| missing(&event_id))
}

/// FAILED becomes NEW, with all its retries before it. The next poll takes it.
async fn replay(State(shop): State<Shop>, Path(event_id): Path<String>) -> Result<Json<EventView>, Refusal> {
    let replayed = shop.store.replay(&Selection::Ids(vec![event_id.clone()])).await?;
    let row = shop.store.find(&event_id).await?.ok_or_else(|| missing(&event_id))?;
    if replayed == 0 {
        let status = row.status.map_or("UNKNOWN", word);
        return Err(Refusal::Conflict(format!("the event `{event_id}` is {status}, not FAILED")));
    }
    Ok(Json(row.into()))
}

fn missing(event_id: &str) -> Refusal {
    Refusal::Missing(format!("there is no event `{event_id}`"))
}
