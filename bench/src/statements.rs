//! How many statements this process sends.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use anyhow::Result;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// Where sqlx tells of every statement.
const TARGET: &str = "sqlx::query";

static IS_COUNTING: AtomicBool = AtomicBool::new(false);
static COUNTED: AtomicU64 = AtomicU64::new(0);

/// Hears of every statement, and of nothing else.
struct Counter;

impl Subscriber for Counter {
    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> tracing::subscriber::Interest {
        // Whether it is counted changes.
        if metadata.target() == TARGET {
            tracing::subscriber::Interest::sometimes()
        } else {
            tracing::subscriber::Interest::never()
        }
    }

    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == TARGET && IS_COUNTING.load(Ordering::Relaxed)
    }

    fn event(&self, _: &Event<'_>) {
        COUNTED.fetch_add(1, Ordering::Relaxed);
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

/// Makes [`counted`] possible; once, at the start of the program.
pub(crate) fn listen() -> Result<()> {
    Ok(tracing::subscriber::set_global_default(Counter)?)
}

/// How many statements this process sends while `work` lasts. It goes more slowly meanwhile.
pub(crate) async fn counted<T>(work: impl Future<Output = Result<T>>) -> Result<u64> {
    let before = COUNTED.load(Ordering::Relaxed);
    IS_COUNTING.store(true, Ordering::Relaxed);
    let worked = work.await;
    IS_COUNTING.store(false, Ordering::Relaxed);
    worked?;
    Ok(COUNTED.load(Ordering::Relaxed) - before)
}
