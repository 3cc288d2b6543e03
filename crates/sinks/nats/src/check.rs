//! Whether the server can keep what the sink promises.

use std::time::Duration;

use async_nats::jetstream::ErrorCode;
use async_nats::jetstream::context::{AccountErrorKind, GetStreamByNameErrorKind};
use async_nats::jetstream::stream::{Config, StorageType};
use pillarbox_message::Finding;

use crate::connection::Connection;
use crate::sink::NatsSink;

/// An event whose answer was lost comes again after a minute at most, if the server is there by then.
const SHORTEST_WINDOW: Duration = Duration::from_secs(120);

impl NatsSink {
    /// What is to be said about the server and the stream: whether they can be reached, keep what they acknowledge, and
    /// take the largest legal event. Where the subject comes from the event, only the stream that the sink makes itself
    /// can be looked at.
    pub async fn check(&self) -> Vec<Finding> {
        let connection = match self.slot.connection(&self.options).await {
            Ok(connection) => connection,
            Err(error) => {
                return vec![Finding::unreachable(format!("{error}; events wait until that is mended"))];
            }
        };
        if let Some(finding) = self.without_jetstream(&connection).await {
            return vec![finding];
        }
        let mut findings = Vec::new();
        let (largest, max_payload) = (self.options.messages.largest(), connection.max_payload());
        if max_payload < largest {
            findings.push(Finding::warning(format!(
                "the server's limit for a message, `max_payload`, is {max_payload} bytes; the largest events come to \
                 {largest}, and those over the limit are rejected"
            )));
        }
        match self.stream(&connection).await {
            Ok(Some(config)) => findings.extend(of_stream(&config, largest)),
            Ok(None) => {}
            Err(finding) => findings.push(finding),
        }
        findings
    }

    /// What is to be said if JetStream is not there.
    async fn without_jetstream(&self, connection: &Connection) -> Option<Finding> {
        let place = self.options.place();
        let error = connection.jetstream.query_account().await.err()?;
        let is_off = match error.kind() {
            AccountErrorKind::JetStreamUnavailable => true,
            AccountErrorKind::JetStream(error) => {
                [ErrorCode::JETSTREAM_NOT_ENABLED, ErrorCode::JETSTREAM_NOT_ENABLED_FOR_ACCOUNT]
                    .contains(&error.error_code())
            }
            AccountErrorKind::TimedOut => false,
            // What servers of 2.9 answer is not understood by the client, but it is an answer.
            AccountErrorKind::Other => return None,
        };
        Some(if is_off {
            Finding::refusal(format!(
                "NATS at {place} has no JetStream for us; switch it on in the server's settings"
            ))
        } else {
            Finding::unreachable(format!(
                "JetStream of NATS at {place} does not answer: {error}; events wait until it does"
            ))
        })
    }

    /// The stream that takes the sink's subject, as far as it is the same for all events, or the one that it makes.
    async fn stream(&self, connection: &Connection) -> Result<Option<Config>, Finding> {
        let name = match (self.options.subject.as_constant(), &self.options.new_stream) {
            (Some(subject), _) => {
                let found = connection.jetstream.stream_by_subject(subject).await;
                found.map_err(|error| match error.kind() {
                    GetStreamByNameErrorKind::NotFound => Finding::unreachable(format!(
                        "no stream takes `{subject}`; events wait until there is one that has this subject"
                    )),
                    _ => Finding::unknown(format!("the stream of `{subject}` is not known: {error}")),
                })?
            }
            (None, Some(stream)) => stream.name().to_owned(),
            (None, None) => return Ok(None),
        };
        let unknown = |error: &dyn std::fmt::Display| {
            Finding::unknown(format!("the settings of the stream `{name}` cannot be read: {error}"))
        };
        let stream = connection.jetstream.get_stream(&name).await.map_err(|error| unknown(&error))?;
        Ok(Some(stream.cached_info().config.clone()))
    }
}

/// What is to be said about the settings of a stream.
fn of_stream(config: &Config, largest: usize) -> Vec<Finding> {
    let name = &config.name;
    let mut findings = Vec::new();
    if config.no_ack {
        findings.push(Finding::refusal(format!(
            "the stream `{name}` acknowledges nothing (`no_ack`), so no event would ever be done; switch that off"
        )));
    }
    if config.sealed {
        let text = format!("the stream `{name}` is sealed and takes nothing more; make another");
        findings.push(Finding::unreachable(text));
    }
    if config.storage == StorageType::Memory {
        findings.push(Finding::warning(format!(
            "the stream `{name}` is kept in memory: a restart of the server loses events that it acknowledged; keep it \
             in files"
        )));
    } else if config.num_replicas < 3 {
        findings.push(Finding::warning(format!(
            "the stream `{name}` is kept on {} server: what it acknowledged is lost with that disk, and what it \
             acknowledged in the last two minutes may be lost with its power, unless the server has \
             `sync_interval: always`, which it does not tell; have three replicas, or that setting",
            config.num_replicas
        )));
    }
    if config.duplicate_window < SHORTEST_WINDOW {
        findings.push(Finding::warning(format!(
            "the stream `{name}` recognises duplicates for {:?} only; an event that comes again later is stored twice; \
             make it {SHORTEST_WINDOW:?} or more",
            config.duplicate_window
        )));
    }
    if let Ok(limit @ 1..) = usize::try_from(config.max_message_size)
        && limit < largest
    {
        findings.push(Finding::warning(format!(
            "the limit of the stream `{name}` for a message, `max_msg_size`, is {limit} bytes; the largest events come \
             to {largest}, and those over the limit are rejected"
        )));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn durable() -> Config {
        Config {
            name: "SHOP".to_owned(),
            num_replicas: 3,
            duplicate_window: SHORTEST_WINDOW,
            max_message_size: -1,
            ..Default::default()
        }
    }

    #[test]
    fn stream_that_keeps_everything_gives_no_cause_for_complaint() {
        assert_eq!(of_stream(&durable(), 2_000_000), []);
    }

    #[test]
    fn each_weakness_of_a_stream_is_named() {
        let minute = Duration::from_secs(60);
        for (config, text, is_refusal) in [
            (Config { no_ack: true, ..durable() }, "`no_ack`", true),
            (Config { sealed: true, ..durable() }, "sealed", false),
            (Config { storage: StorageType::Memory, ..durable() }, "kept in memory", false),
            (Config { num_replicas: 1, ..durable() }, "`sync_interval: always`", false),
            (Config { duplicate_window: minute, ..durable() }, "duplicates for 60s only", false),
            (Config { max_message_size: 1_000, ..durable() }, "`max_msg_size`, is 1000 bytes", false),
        ] {
            let findings = of_stream(&config, 2_000_000);

            assert_eq!(findings.len(), 1, "{findings:?}");
            assert!(findings[0].text.contains(text), "{}", findings[0]);
            assert_eq!(findings[0].is_refusal(), is_refusal, "{}", findings[0]);
        }
    }
}
