//! Events whose subject nobody takes.

use std::collections::BTreeMap;

use async_nats::jetstream::context::GetStreamByNameErrorKind;
use pillarbox::{Run, SinkError};

use crate::connection::Connection;
use crate::options::NatsOptions;
use crate::subject;

/// Events of a run to which the server said that nobody listens, by their subjects.
#[derive(Default)]
pub(crate) struct Homeless(BTreeMap<String, Vec<usize>>);

/// Whether a stream takes a subject.
enum Home {
    Taken,
    Free,
    /// JetStream did not say.
    Unclear(String),
}

impl Homeless {
    pub(crate) fn add(&mut self, subject: String, index: usize) {
        self.0.entry(subject).or_default().push(index);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Answers them. None was stored.
    ///
    /// "Nobody listens" is also what is heard while a stream has no leader, and before its operator has made it, so it
    /// spends no attempt, unless JetStream says that it has streams for other subjects of the same template: then this
    /// very subject is the odd one, and must not keep the others from going out.
    pub(crate) async fn answer(self, run: &Run, options: &NatsOptions, connection: &Connection) {
        for (subject, indexes) in self.0 {
            let (index, home) = (indexes[0], home(connection, &subject).await);
            let others = match &home {
                Home::Free => {
                    let template = run.address(index).unwrap_or(&options.subject);
                    let pattern = subject::pattern(template, &run.deliveries()[index]);
                    match pattern.filter(|pattern| *pattern != subject) {
                        Some(pattern) => home_of_others(connection, pattern).await,
                        None => None,
                    }
                }
                _ => None,
            };
            let error = verdict(&subject, &home, others);
            for index in indexes {
                run.answer(index, Err(error.clone()));
            }
        }
    }
}

fn verdict(subject: &str, home: &Home, others: Option<String>) -> SinkError {
    match (home, others) {
        (Home::Free, Some(pattern)) => SinkError::rejected(format!(
            "no stream takes `{subject}`, though there is one for others of `{pattern}`; add the subject to a stream"
        )),
        (Home::Free, None) => {
            SinkError::unavailable(format!("no stream takes `{subject}`; make one that has this subject"))
        }
        (Home::Taken, _) => SinkError::unavailable(format!("the stream of `{subject}` has no leader now")),
        (Home::Unclear(why), _) => {
            SinkError::unavailable(format!("nobody takes `{subject}`, and JetStream does not say why: {why}"))
        }
    }
}

async fn home(connection: &Connection, subject: &str) -> Home {
    match connection.jetstream.stream_by_subject(subject).await {
        Ok(_) => Home::Taken,
        Err(error) if error.kind() == GetStreamByNameErrorKind::NotFound => Home::Free,
        Err(error) => Home::Unclear(error.to_string()),
    }
}

/// The pattern, if a stream takes any subject of it.
async fn home_of_others(connection: &Connection, pattern: String) -> Option<String> {
    matches!(home(connection, &pattern).await, Home::Taken).then_some(pattern)
}
