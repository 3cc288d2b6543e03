//! An order service that announces its orders on Kafka, as `README.md` beside it tells.
//!
//! An order and its event are committed together in PostgreSQL; the publisher takes the events from the table and sends
//! them, apart from any request. What cannot be sent in six attempts is FAILED until somebody replays it.

#![expect(clippy::print_stdout, reason = "the program says where it listens")]

mod admin;
mod api;
mod options;
mod order;
mod publisher;
mod refusal;
mod status;

use std::future::IntoFuture;

use anyhow::Context;
use pillarbox::Outbox;
use pillarbox_postgres::PostgresStore;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

use crate::options::Options;

/// What requests work with.
#[derive(Clone)]
struct Shop {
    store: PostgresStore,
    outbox: Outbox<PostgresStore>,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let level = tracing_subscriber::EnvFilter::try_from_default_env().unwrap_or_else(|_| "info".into());
    tracing_subscriber::fmt().with_env_filter(level).with_writer(std::io::stderr).init();
    let options = Options::from_env()?;

    let store = PostgresStore::connect(&options.database_url).await?;
    store.migrate().await?;
    order::create_tables(&store).await?;
    let kafka = publisher::kafka(&options).await?;
    let outbox = publisher::start(store.clone(), kafka)?;

    let listener = TcpListener::bind(&options.listen).await;
    let listener = listener.with_context(|| format!("cannot listen on `LISTEN` = {}", options.listen))?;
    println!("listening on http://{}", listener.local_addr()?);
    let api = api::router(Shop { store: store.clone(), outbox: outbox.clone() });
    let served = tokio::select! {
        served = axum::serve(listener, api).with_graceful_shutdown(told_to_stop()).into_future() => {
            served.context("the API cannot be served any more")
        }
        reason = outbox.stopped() => Err(reason.into()),
    };

    // Requests have ended, so nothing new is written. What is on its way to Kafka is finished, the rest stays NEW.
    outbox.close().await;
    store.close().await;
    served
}

/// Completes at Ctrl-C and at SIGTERM, with which supervisors end a service.
async fn told_to_stop() {
    let terminate = async {
        match signal(SignalKind::terminate()) {
            Ok(mut signal) => signal.recv().await,
            Err(error) => {
                tracing::warn!(%error, "SIGTERM cannot be heard; stop by Ctrl-C");
                std::future::pending().await
            }
        }
    };
    tokio::select! {
        _ = terminate => {}
        _ = tokio::signal::ctrl_c() => {}
    }
    tracing::info!("stopping");
}
