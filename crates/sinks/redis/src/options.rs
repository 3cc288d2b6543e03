//! Where Redis is, who we are to it, and where events go.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use pillarbox::Template;
use pillarbox_message::Messages;
use redis::{ConnectionInfo, IntoConnectionInfo};

/// What a [`RedisSink`](crate::RedisSink) needs to know.
///
/// | option | default |
/// |---|---|
/// | [`user`](Self::user), [`database`](Self::database) | what the URL says, else none and 0 |
/// | [`ca_file`](Self::ca_file), [`client_certificate`](Self::client_certificate) | the authorities of the system, no certificate |
/// | [`trim`](Self::trim) | nothing is deleted |
/// | [`wait_replicas`](Self::wait_replicas) | none is waited for |
/// | [`connect_timeout`](Self::connect_timeout) | 5 s |
/// | [`answer_timeout`](Self::answer_timeout) | 10 s |
/// | [`in_flight`](Self::in_flight) | 100 events and 1 MiB of each run |
#[derive(Clone)]
pub struct RedisOptions {
    pub(crate) server: ConnectionInfo,
    pub(crate) stream: Template,
    pub(crate) messages: Messages,
    pub(crate) ca_file: Option<PathBuf>,
    pub(crate) client_certificate: Option<(PathBuf, PathBuf)>,
    pub(crate) trim: Option<Trim>,
    pub(crate) replicas: Option<Replicas>,
    pub(crate) connect_timeout: Duration,
    pub(crate) answer_timeout: Duration,
    pub(crate) max_events: usize,
    pub(crate) max_bytes: usize,
}

/// What of a stream is deleted when an event is added: about as much as is told, in whole blocks, as Redis does it cheaply.
/// What is deleted is gone for all consumers, those too that have not read it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trim {
    /// The oldest, so that about so many are left (`MAXLEN ~`).
    ToLength(u64),
    /// Those that are older, by our clock against the ids that the server gave (`MINID ~`); needs Redis 6.2.
    ToAge(Duration),
}

/// How many replicas must have an event.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Replicas {
    pub(crate) count: usize,
    pub(crate) within: Duration,
}

/// A URL that leads to no Redis. It is not repeated in the text: it may have a password in it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the URL of Redis is not understood; write `redis://user:password@host:6379/0`, or `rediss://` for TLS, with special \
     characters as `%` and two digits"
)]
pub struct BadUrl;

impl RedisOptions {
    /// Events go to the server at `url` (`redis://` or `rediss://`), to the stream `stream` where their route says nothing
    /// else, as `messages`.
    pub fn new(url: &str, stream: Template, messages: Messages) -> Result<Self, BadUrl> {
        Ok(Self {
            server: url.into_connection_info().map_err(|_| BadUrl)?,
            stream,
            messages,
            ca_file: None,
            client_certificate: None,
            trim: None,
            replicas: None,
            connect_timeout: Duration::from_secs(5),
            answer_timeout: Duration::from_secs(10),
            max_events: 100,
            max_bytes: 1 << 20,
        })
    }

    /// The user and the password, instead of those in the URL. The user of servers that know no users is `default`.
    #[must_use]
    pub fn user(mut self, name: impl AsRef<str>, password: impl AsRef<str>) -> Self {
        let settings = self.server.redis_settings().clone().set_username(name).set_password(password);
        self.server = self.server.set_redis_settings(settings);
        self
    }

    /// The number of the database, instead of the one in the URL.
    #[must_use]
    pub fn database(mut self, number: u16) -> Self {
        let settings = self.server.redis_settings().clone().set_db(i64::from(number));
        self.server = self.server.set_redis_settings(settings);
        self
    }

    /// A file in PEM with the authorities that are trusted, instead of those of the system; used with `rediss://`. It is
    /// read with each connection.
    #[must_use]
    pub fn ca_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.ca_file = Some(path.into());
        self
    }

    /// Files in PEM with a certificate and its key, for servers that ask for them.
    #[must_use]
    pub fn client_certificate(mut self, certificate: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Self {
        self.client_certificate = Some((certificate.into(), key.into()));
        self
    }

    /// What of a stream is deleted when an event is added.
    #[must_use]
    pub fn trim(mut self, trim: Trim) -> Self {
        self.trim = Some(trim);
        self
    }

    /// Acknowledges events only when so many replicas have them (`WAIT`). If they do not within the time, the events are
    /// unknown: the server has them, and they come again.
    #[must_use]
    pub fn wait_replicas(mut self, count: usize, within: Duration) -> Self {
        self.replicas = Some(Replicas { count, within });
        self
    }

    /// How long connecting and logging in may take together.
    #[must_use]
    pub fn connect_timeout(mut self, limit: Duration) -> Self {
        self.connect_timeout = limit;
        self
    }

    /// How long an answer may take. Make it shorter than the outbox's `delivery_timeout`.
    #[must_use]
    pub fn answer_timeout(mut self, limit: Duration) -> Self {
        self.answer_timeout = limit;
        self
    }

    /// How much of a run is sent in one go, and answered together; one event is always sent. If the connection is lost
    /// meanwhile, so much is unknown and comes again. With one event, none is sent before the one in front of it is
    /// answered.
    #[must_use]
    pub fn in_flight(mut self, events: usize, bytes: usize) -> Self {
        (self.max_events, self.max_bytes) = (events, bytes);
        self
    }

    /// The server, for texts.
    pub(crate) fn place(&self) -> String {
        self.server.addr().to_string()
    }
}

impl fmt::Debug for RedisOptions {
    /// Without the password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisOptions")
            .field("server", &self.place())
            .field("stream", &self.stream)
            .field("messages", &self.messages)
            .field("trim", &self.trim)
            .field("replicas", &self.replicas)
            .field("connect_timeout", &self.connect_timeout)
            .field("answer_timeout", &self.answer_timeout)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(url: &str) -> Result<RedisOptions, BadUrl> {
        RedisOptions::new(url, "orders".parse().unwrap(), Messages::from_source("/shop").unwrap())
    }

    #[test]
    fn password_is_never_shown() {
        let options = options("rediss://shop:s3cret@one.example:6380/3").unwrap().database(7);

        assert_eq!(options.server.redis_settings().password(), Some("s3cret"));
        assert_eq!(options.server.redis_settings().db(), 7);
        assert_eq!(options.place(), "one.example:6380");
        assert!(!format!("{options:?}").contains("s3cret"));
    }

    #[test]
    fn bad_url_is_refused_without_repeating_it() {
        for bad in ["http://:s3cret@host", "redis://:s3cret@", "redis://:s3cret@host/one", ""] {
            let error = options(bad).unwrap_err().to_string();

            assert!(error.starts_with("the URL of Redis is not understood"), "{bad}: {error}");
            assert!(!error.contains("s3cret"), "{error}");
        }
    }
}
