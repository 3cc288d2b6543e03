//! The statements that a driver logs, for tests that count them.
//!
//! `sqlx` logs every statement under the target `sqlx::query`, on threads of its own too, so they are kept for the
//! whole process: tests tell theirs apart by the names of their tables, or by the task that sent them. It does not log
//! what begins and ends transactions.

use std::fmt::{Debug, Write};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};

use tracing::field::{Field, Visit};
use tracing::{Instrument, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;

static KEPT: Mutex<Vec<Statement>> = Mutex::new(Vec::new());

/// One statement.
struct Statement {
    /// The span that it was sent in.
    span: Option<u64>,
    text: String,
}

/// Begins to keep the statements of this process, by a subscriber for all of it.
///
/// # Panics
/// If there is another subscriber for all of it already.
pub fn keep() {
    static BEGUN: Once = Once::new();
    BEGUN.call_once(|| {
        let subscriber = tracing_subscriber::registry().with(Keeper);
        tracing::subscriber::set_global_default(subscriber).expect("nobody else subscribes");
    });
}

/// The statements with `word` in their text that were sent since they were last asked for.
pub fn with(word: &str) -> Vec<String> {
    forget(|statement| statement.text.contains(word))
}

/// What `call` answers, and the statements that its own task sent meanwhile.
pub async fn counted<T>(call: impl Future<Output = T>) -> (T, Vec<String>) {
    keep();
    let span = tracing::info_span!("counted");
    let id = span.id().map(|id| id.into_u64());
    let answer = call.instrument(span).await;
    (answer, forget(|statement| statement.span == id))
}

fn forget(is_meant: impl Fn(&Statement) -> bool) -> Vec<String> {
    let mut kept = kept();
    let (meant, others): (Vec<_>, Vec<_>) = kept.drain(..).partition(is_meant);
    *kept = others;
    meant.into_iter().map(|statement| statement.text).collect()
}

fn kept() -> MutexGuard<'static, Vec<Statement>> {
    KEPT.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Keeper;

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Keeper {
    fn on_event(&self, event: &tracing::Event<'_>, context: Context<'_, S>) {
        if event.metadata().target() == "sqlx::query" {
            let span = context.lookup_current().map(|span| span.id().into_u64());
            let mut text = Text::default();
            event.record(&mut text);
            kept().push(Statement { span, text: text.0 });
        }
    }
}

/// A short statement is logged as its summary; a long one has its beginning there, and is logged as a whole beside it.
#[derive(Default)]
struct Text(String);

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if ["summary", "db.statement"].contains(&field.name()) {
            let _ = write!(self.0, "{value:?}");
        }
    }
}
