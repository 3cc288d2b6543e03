//! A REST API for orders on a SQLite file, with nothing else installed.
//!
//! An order and its event are committed together; right after that the event is delivered in this process, to a mailer
//! that confirms the order. `README.md` beside it has lines to try.

#![expect(clippy::print_stdout, reason = "the program says where it listens, and how it ended")]

mod api;
mod mailer;
mod order;
mod refusal;

use std::future::IntoFuture;

use anyhow::Context;
use pillarbox::store::Administration;
use pillarbox::{Handlers, Outbox};
use pillarbox_sqlite::SqliteStore;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

use crate::mailer::Mailer;

/// What requests work with.
#[derive(Clone)]
struct Shop {
    store: SqliteStore,
    outbox: Outbox<SqliteStore>,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let level = tracing_subscriber::EnvFilter::try_from_default_env().unwrap_or_else(|_| "info".into());
    tracing_subscriber::fmt().with_env_filter(level).with_writer(std::io::stderr).init();
    let database = std::env::var("DATABASE").unwrap_or_else(|_| "shop.db".to_owned());
    let listen = std::env::var("LISTEN").unwrap_or_else(|_| "127.0.0.1:8080".to_owned());

    let store = SqliteStore::connect(database).await?;
    store.migrate().await?;
    sqlx::raw_sql(include_str!("tables.sql")).execute(store.pool()).await?;
    let mailer = Mailer { store: store.clone() };
    let outbox =
        Outbox::builder(store.clone()).handlers(Handlers::new().handler("mailer", mailer)).start()?;

    let listener = TcpListener::bind(&listen).await;
    let listener = listener.with_context(|| format!("cannot listen on `LISTEN` = {listen}"))?;
    println!("listening on http://{}", listener.local_addr()?);
    let api = api::router(Shop { store: store.clone(), outbox: outbox.clone() });
    let served = tokio::select! {
        served = axum::serve(listener, api).with_graceful_shutdown(told_to_stop()).into_future() => {
            served.context("the API cannot be served any more")
        }
        reason = outbox.stopped() => Err(reason.into()),
    };

    // Requests have ended, so nothing new is written. Deliveries that run are finished, the others wait in the file.
    outbox.close().await;
    println!("stopped: {} events wait for the next start", store.stats().await?.pending());
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
