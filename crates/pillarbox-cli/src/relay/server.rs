//! What of a relay can be reached by HTTP: whether it lives, whether it works, and its numbers.

use std::sync::Arc;

use anyhow::Context;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use metrics_exporter_prometheus::PrometheusHandle;
use pillarbox_metrics::{record_routes, record_sinks};
use serde::Serialize;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::config::HttpTable;
use super::state::{OutboxState, Relays};

/// What is served.
pub(crate) struct Served {
    pub(crate) relays: Arc<Relays>,
    pub(crate) page: PrometheusHandle,
}

/// Listens, and serves until the end.
pub(crate) async fn serve(table: &HttpTable, served: Served, end: CancellationToken) -> anyhow::Result<()> {
    if !table.enabled {
        return Ok(());
    }
    let listener = TcpListener::bind(table.listen)
        .await
        .with_context(|| format!("cannot listen on {}; set `http.listen` to a free address", table.listen))?;
    tracing::info!(address = %listener.local_addr()?, "serving /livez, /readyz, /status and /metrics");
    let router = router(served);
    tokio::spawn(async move {
        let served = axum::serve(listener, router).with_graceful_shutdown(end.cancelled_owned()).await;
        if let Err(error) = served {
            tracing::error!(%error, "the relay cannot be reached by HTTP any more");
        }
    });
    Ok(())
}

fn router(served: Served) -> Router {
    Router::new()
        .route("/livez", get(|| async { "alive\n" }))
        .route("/readyz", get(ready))
        .route("/status", get(status))
        .route("/metrics", get(metrics))
        .with_state(Arc::new(served))
}

/// Everything that is known of the relay itself.
#[derive(Serialize)]
struct Status {
    outboxes: Vec<OutboxState>,
}

/// 200 while every outbox delivers, or could if its sinks let it; otherwise 503, with what is wrong.
async fn ready(State(served): State<Arc<Served>>) -> Response {
    let outboxes = served.relays.states();
    let code = match outboxes.iter().all(|outbox| outbox.trouble.is_none()) && !outboxes.is_empty() {
        true => StatusCode::OK,
        false => StatusCode::SERVICE_UNAVAILABLE,
    };
    (code, Json(Status { outboxes })).into_response()
}

async fn status(State(served): State<Arc<Served>>) -> Json<Status> {
    Json(Status { outboxes: served.relays.states() })
}

async fn metrics(State(served): State<Arc<Served>>) -> Response {
    for (outbox, routing) in served.relays.routings() {
        record_sinks(&routing.health());
        record_routes(&outbox, &routing);
    }
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], served.page.render())
        .into_response()
}
