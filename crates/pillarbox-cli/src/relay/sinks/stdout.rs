//! Standard output, for trying things out: one line of JSON for each event.

use std::io::Write;
use std::sync::Arc;

use pillarbox::{BoxFuture, Run, Sink, SinkError};
use pillarbox_message::{Finding, Messages, Mode};
use serde::Deserialize;

use super::{Checked, Own};
use crate::relay::config::{Config, SinkTable};
use crate::relay::document::Mistake;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Options {
    #[serde(rename = "type")]
    _kind: String,
}

/// Prints events as structured messages.
struct Stdout {
    messages: Messages,
}

impl Sink for Stdout {
    fn publish<'a>(&'a self, run: &'a Run) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            for (index, delivery) in run.deliveries().iter().enumerate() {
                run.answer(index, self.print(delivery));
            }
        })
    }
}

impl Stdout {
    fn print(&self, event: &pillarbox::Event) -> Result<(), SinkError> {
        let message =
            self.messages.of(event).map_err(|error| SinkError::rejected(error.to_string()).for_good())?;
        let mut line = message.body.into_owned();
        // Line ends inside of a payload are white space of its JSON.
        line.iter_mut().filter(|byte| matches!(byte, b'\n' | b'\r')).for_each(|byte| *byte = b' ');
        line.push(b'\n');
        let mut out = std::io::stdout().lock();
        let printed = out.write_all(&line).and_then(|()| out.flush());
        printed.map_err(|error| SinkError::unavailable(format!("standard output: {error}")))
    }
}

impl Checked for Stdout {
    fn findings(&self) -> BoxFuture<'_, Vec<Finding>> {
        Box::pin(std::future::ready(Vec::new()))
    }
}

pub(super) fn make(
    config: &Config,
    table: &SinkTable,
    messages: Messages,
) -> Result<(Arc<dyn Checked>, Own), Mistake> {
    let Options { .. } = config.sink_options(table)?;
    Ok((Arc::new(Stdout { messages: messages.mode(Mode::Structured) }), Own::default()))
}
