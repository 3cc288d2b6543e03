//! What of a relay can be reached by HTTP: whether it lives, whether it works, and its numbers.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::sync::{Arc, Mutex, PoisonError};

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use metrics_exporter_prometheus::PrometheusHandle;
use pillarbox_metrics::{forget_route, forget_sink, record_routes, record_sinks};
use serde::Serialize;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::config::HttpTable;
use super::state::{OutboxState, Relays};
use crate::exit::Unusable;

/// What is served.
pub(crate) struct Served {
    relays: Arc<Relays>,
    page: PrometheusHandle,
    told: Mutex<Told>,
}

impl Served {
    pub(crate) fn new(relays: Arc<Relays>, page: PrometheusHandle) -> Self {
        Self { relays, page, told: Mutex::default() }
    }
}

/// Which sinks and routes the page had the last time. What is gone since is unknown, not as it was.
#[derive(Default)]
struct Told {
    sinks: BTreeSet<String>,
    /// With their outboxes.
    routes: BTreeSet<(String, String)>,
}

impl Told {
    /// Takes the numbers of those away that are not among these.
    fn pass_to(&mut self, now: Self) {
        self.sinks.difference(&now.sinks).for_each(|sink| forget_sink(sink));
        self.routes.difference(&now.routes).for_each(|(outbox, route)| forget_route(outbox, route));
        *self = now;
    }
}

/// Listens, unless the file says that nothing is served. An address that somebody else has, or that is not for everybody,
/// is the user's to change.
pub(crate) async fn listen(table: &HttpTable) -> anyhow::Result<Option<TcpListener>> {
    if !table.enabled {
        return Ok(None);
    }
    let error = match TcpListener::bind(table.listen).await {
        Ok(listener) => return Ok(Some(listener)),
        Err(error) => error,
    };
    let text = format!("cannot listen on {}; set `http.listen` to a free address", table.listen);
    match error.kind() {
        ErrorKind::AddrInUse | ErrorKind::PermissionDenied => {
            Err(Unusable(format!("{text}: {error}")).into())
        }
        _ => Err(anyhow::Error::new(error).context(text)),
    }
}

/// Serves until the end.
pub(crate) fn serve(listener: TcpListener, served: Served, end: CancellationToken) -> anyhow::Result<()> {
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
    let mut now = Told::default();
    for (outbox, routing) in served.relays.routings() {
        let health = routing.health();
        record_sinks(&health);
        record_routes(&outbox, &routing);
        now.sinks.extend(health.into_iter().map(|sink| sink.name));
        now.routes.extend(routing.route_names().into_iter().map(|route| (outbox.clone(), route)));
    }
    served.told.lock().unwrap_or_else(PoisonError::into_inner).pass_to(now);
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], served.page.render())
        .into_response()
}
