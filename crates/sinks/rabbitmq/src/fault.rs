//! What went wrong between us and the server.

use std::io;
use std::time::Duration;

use lapin::ErrorKind;
use lapin::protocol::{AMQPErrorKind, AMQPSoftError};
use lapin::uri::AMQPUri;
use pillarbox::SinkError;

use crate::options::Place;

pub(crate) const BLOCKED: &str = "RabbitMQ has blocked all who publish, for its memory or its disk is nearly full; free \
                                  some there, or raise its limits";

/// Why something that was asked of the server was not done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) kind: FaultKind,
    pub(crate) text: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FaultKind {
    /// The server is away, or the way to it.
    Away,
    /// The server does not let us in, or we do not trust it.
    Locked,
    /// What we asked for is not there.
    Missing,
    /// The server refused what we asked for, and goes on otherwise.
    Refused,
}

impl Fault {
    fn new(kind: FaultKind, text: impl Into<String>) -> Self {
        Self { kind, text: text.into() }
    }

    /// Connecting failed.
    pub(crate) fn connecting(uri: &AMQPUri, error: &lapin::Error) -> Self {
        let place = Place(uri);
        if error.is_amqp_error() {
            let (user, vhost) = (&uri.authority.userinfo.username, &uri.vhost);
            return Self::new(
                FaultKind::Locked,
                format!("{place} refuses user `{user}` in virtual host `{vhost}`: {}", shown(error)),
            );
        }
        let kind = if is_distrust(error) { FaultKind::Locked } else { FaultKind::Away };
        Self::new(kind, format!("{place} cannot be reached: {}", shown(error)))
    }

    /// Connecting took too long.
    pub(crate) fn silent(uri: &AMQPUri, limit: Duration) -> Self {
        Self::new(FaultKind::Away, format!("{} did not answer within {limit:?}", Place(uri)))
    }

    /// The server did not answer in time on a connection that stood.
    pub(crate) fn unanswered(limit: Duration) -> Self {
        Self::new(FaultKind::Away, format!("the server did not answer within {limit:?}"))
    }

    /// The server answered with an error, or was lost.
    pub(crate) fn asking(error: &lapin::Error) -> Self {
        let kind = match error.kind() {
            ErrorKind::ProtocolError(error) => match error.kind() {
                AMQPErrorKind::Soft(AMQPSoftError::NOTFOUND) => FaultKind::Missing,
                AMQPErrorKind::Soft(_) => FaultKind::Refused,
                AMQPErrorKind::Hard(_) => FaultKind::Away,
            },
            _ => FaultKind::Away,
        };
        Self::new(kind, shown(error))
    }

    /// As an answer for events of which nothing was sent.
    pub(crate) fn unavailable(&self) -> SinkError {
        SinkError::unavailable(self.text.clone())
    }
}

/// Whether the certificate of the server is not trusted, or the authorities that are cannot be read.
fn is_distrust(error: &lapin::Error) -> bool {
    matches!(error.kind(), ErrorKind::IOError(error) if error.kind() == io::ErrorKind::InvalidData)
}

/// The text of an error, without what the client puts before it.
pub(crate) fn shown(error: &lapin::Error) -> String {
    match error.kind() {
        ErrorKind::ProtocolError(error) => error.get_message().to_string(),
        ErrorKind::IOError(error) | ErrorKind::RuntimeShutdownError(error) => error.to_string(),
        _ => error.to_string(),
    }
}

/// What to say of an exchange that cannot be found.
pub(crate) fn no_exchange(exchange: &str, why: &str) -> String {
    format!("exchange `{exchange}` cannot be used: {why}; declare it, durable, or correct its name")
}
