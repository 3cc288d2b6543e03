//! What the engine logs while a test runs.

use std::fmt::Write;

use tracing::field::{Field, Visit};
use tracing::subscriber::DefaultGuard;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};

use crate::stage::Notes;

/// Collects log lines on the current thread for as long as it lives.
pub(crate) struct Logs {
    lines: Notes<(Level, String)>,
    _guard: DefaultGuard,
}

impl Logs {
    pub(crate) fn collect() -> Self {
        let lines = Notes::new();
        let subscriber = tracing_subscriber::registry().with(Collector(lines.clone()));
        Self { lines, _guard: tracing::subscriber::set_default(subscriber) }
    }

    /// The lines of this level so far, message first.
    pub(crate) fn at(&self, level: Level) -> Vec<String> {
        self.lines.all().into_iter().filter(|(at, _)| *at == level).map(|(_, line)| line).collect()
    }
}

struct Collector(Notes<(Level, String)>);

impl<S: Subscriber> Layer<S> for Collector {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut line = Line::default();
        event.record(&mut line);
        self.0.note((*event.metadata().level(), format!("{}{}", line.message, line.fields)));
    }
}

#[derive(Default)]
struct Line {
    message: String,
    fields: String,
}

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        match field.name() {
            "message" => self.message = format!("{value:?}"),
            name => write!(self.fields, " {name}={value:?}").unwrap(),
        }
    }
}
