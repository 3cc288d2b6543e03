//! What is logged, all of it, by a process that connects, works and closes: no password.

use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use pillarbox::{Delivery, ListenerError, Outbox, Runtime};
use pillarbox_any::AnyStore;
use pillarbox_testkit::conformance::order_placed;
use tracing_subscriber::filter::LevelFilter;

use crate::stage::AnyStage;

/// Tell a process to log everything, and where its database is.
const LOGGED_URL: &str = "PILLARBOX_TEST_LOGGED_URL";
const LOGGED_SCHEMA: &str = "PILLARBOX_TEST_LOGGED_SCHEMA";

/// The password that opens nothing.
const WRONG: &str = "open-sesame";

/// Writes what libraries log by the crate `log`.
struct Records;

impl log::Log for Records {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        eprintln!("{} {} {}", record.level(), record.target(), record.args());
    }

    fn flush(&self) {}
}

/// Does what is logged, if this process was started for that.
pub(crate) fn logged() -> Option<ExitCode> {
    let (url, schema) = (std::env::var(LOGGED_URL).ok()?, std::env::var(LOGGED_SCHEMA).ok()?);
    tracing_subscriber::fmt().with_max_level(LevelFilter::TRACE).with_writer(std::io::stderr).init();
    log::set_logger(&Records).unwrap();
    log::set_max_level(log::LevelFilter::Trace);
    tracing::trace!("listening");
    log::trace!("listening");
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(connect_and_work(&url, &schema));
    Some(ExitCode::SUCCESS)
}

/// Is turned away once, and delivers an event then.
async fn connect_and_work(url: &str, schema: &str) {
    let (before, host) = url.rsplit_once('@').unwrap();
    let scheme_and_user = password(url).map_or(before, |password| before.strip_suffix(password).unwrap());
    let refused =
        AnyStore::connect(format!("{}:{WRONG}@{host}", scheme_and_user.trim_end_matches(':'))).await;
    tracing::error!(error = ?refused.unwrap_err(), "refused");
    let options = AnyStore::options(url).schema(schema).max_connections(2);
    tracing::info!(?options, "connecting");
    let store = options.connect().await.unwrap();
    store.migrate().await.unwrap();
    tracing::info!(?store, "connected");
    let (delivered, mut desk) = tokio::sync::mpsc::channel(1);
    let listener = move |delivery: Delivery| {
        let delivered = delivered.clone();
        async move {
            tracing::info!(?delivery, "delivered");
            delivered.send(()).await.map_err(ListenerError::new)
        }
    };
    let outbox = Outbox::builder(store)
        .runtime(Runtime::tokio())
        .on_aggregate("Order", "OrderPlaced", listener)
        .poll_every(Duration::from_millis(50))
        .start()
        .unwrap();
    let mut tx = outbox.begin().await.unwrap();
    outbox.write(&mut tx, order_placed("order-17")).await.unwrap();
    tx.commit().await.unwrap();
    desk.recv().await.unwrap();
    outbox.close().await;
    outbox.store().close().await;
}

/// The password of a URL, which has none of the characters that would have to be encoded.
fn password(url: &str) -> Option<&str> {
    let (before, _) = url.rsplit_once('@')?;
    let (_, user) = before.split_once("://")?;
    Some(user.split_once(':')?.1)
}

/// Whatever is logged at whatever level, by us and by the driver: no password is in it, neither the right nor a
/// wrong one.
pub(crate) async fn logs_have_no_password(stage: &AnyStage) {
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.env(LOGGED_URL, &stage.url).env(LOGGED_SCHEMA, stage.schema.as_ref().unwrap()).stdin(Stdio::null());

    let output = tokio::task::spawn_blocking(move || child.output().unwrap()).await.unwrap();

    let log = String::from_utf8_lossy(&output.stderr) + String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{log}");
    let logged = ["DEBUG sqlx::query", "refused error", "outbox_event", "delivered delivery"];
    for logged in
        logged.into_iter().chain(["TRACE servers::logs: listening", "TRACE servers::logs listening"])
    {
        assert!(log.contains(logged), "`{logged}` is not in {log}");
    }
    assert!(!log.contains(WRONG), "{log}");
    assert!(password(&stage.url).is_none_or(|password| !log.contains(password)), "{log}");
}
