//! Where RabbitMQ is, who we are to it, and where events go.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use lapin::uri::AMQPUri;
use pillarbox::Template;
use pillarbox_message::Messages;

/// What a [`RabbitMqSink`](crate::RabbitMqSink) needs to know.
///
/// | option | default |
/// |---|---|
/// | [`exchange`](Self::exchange) | the default exchange, where the routing key is the name of a queue |
/// | [`user`](Self::user) | what the URL says, else `guest` with password `guest` |
/// | [`ca_file`](Self::ca_file) | well-known authorities only |
/// | [`connect_timeout`](Self::connect_timeout) | 5 s |
/// | [`heartbeat`](Self::heartbeat) | what the URL says, else 10 s |
/// | [`connection_name`](Self::connection_name) | `pillarbox` |
#[derive(Clone)]
pub struct RabbitMqOptions {
    pub(crate) uri: AMQPUri,
    pub(crate) exchange: Option<Template>,
    pub(crate) routing_key: Template,
    pub(crate) messages: Messages,
    pub(crate) ca_file: Option<PathBuf>,
    pub(crate) connect_timeout: Duration,
    pub(crate) connection_name: String,
}

/// A URL that leads to no RabbitMQ. It is not repeated in the text: it may have a password in it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the URL of RabbitMQ is not understood; write `amqp://user:password@host:5672/vhost`, or `amqps://` for TLS, with \
     special characters as `%` and two digits, so that the virtual host `/` is `%2f`"
)]
pub struct BadUrl;

/// The largest frame that we ask for, as the server does by default. Without one, the client would reserve gigabytes.
const FRAME_MAX: u32 = 131_072;
/// A silent server is noticed after two heartbeats, before the time for a delivery (30 s by default) is over.
const HEARTBEAT: Duration = Duration::from_secs(10);

impl RabbitMqOptions {
    /// Events go to the server at `url` (`amqp://` or `amqps://`), under `routing_key` where their route says nothing
    /// else, as `messages`.
    pub fn new(url: &str, routing_key: Template, messages: Messages) -> Result<Self, BadUrl> {
        Ok(Self {
            uri: parsed(url)?,
            exchange: None,
            routing_key,
            messages,
            ca_file: None,
            connect_timeout: Duration::from_secs(5),
            connection_name: "pillarbox".to_owned(),
        })
    }

    /// The exchange that events go to; without one it is the default exchange.
    #[must_use]
    pub fn exchange(mut self, exchange: Template) -> Self {
        self.exchange = Some(exchange);
        self
    }

    /// The user and the password, instead of those in the URL.
    #[must_use]
    pub fn user(mut self, name: impl Into<String>, password: impl Into<String>) -> Self {
        self.uri.authority.userinfo.username = name.into();
        self.uri.authority.userinfo.password = password.into();
        self
    }

    /// A file with certificates of authorities, in PEM, that are trusted besides the well-known ones; used with `amqps://`.
    /// It is read anew for each connection.
    #[must_use]
    pub fn ca_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.ca_file = Some(path.into());
        self
    }

    /// How long connecting, logging in and opening a channel may take each.
    #[must_use]
    pub fn connect_timeout(mut self, limit: Duration) -> Self {
        self.connect_timeout = limit;
        self
    }

    /// How often each side shows that it lives, in whole seconds, if the server does not ask for more: a connection that
    /// is silent for twice as long is given up.
    #[must_use]
    pub fn heartbeat(mut self, every: Duration) -> Self {
        self.uri.query.heartbeat = Some(seconds(every));
        self
    }

    /// The name of the connection, as the server lists it.
    #[must_use]
    pub fn connection_name(mut self, name: impl Into<String>) -> Self {
        self.connection_name = name.into();
        self
    }
}

impl fmt::Debug for RabbitMqOptions {
    /// Without the password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RabbitMqOptions")
            .field("server", &Place(&self.uri))
            .field("exchange", &self.exchange)
            .field("routing_key", &self.routing_key)
            .field("messages", &self.messages)
            .field("connect_timeout", &self.connect_timeout)
            .finish_non_exhaustive()
    }
}

/// A server, as it may be shown: without the password.
pub(crate) struct Place<'u>(pub(crate) &'u AMQPUri);

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let AMQPUri { scheme, authority, .. } = self.0;
        write!(f, "{scheme}://{}:{}", authority.host, authority.port)
    }
}

impl fmt::Debug for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

fn parsed(url: &str) -> Result<AMQPUri, BadUrl> {
    let mut uri: AMQPUri = url.parse().map_err(|_| BadUrl)?;
    if let Some(address) = ip_v6(url) {
        // The parser takes it for no host at all, and would connect to this machine.
        uri.authority.host = address.to_owned();
    }
    if uri.authority.host.is_empty() {
        return Err(BadUrl);
    }
    uri.query.frame_max = Some(uri.query.frame_max.filter(|max| *max > 0).unwrap_or(FRAME_MAX));
    uri.query.heartbeat = Some(uri.query.heartbeat.unwrap_or(seconds(HEARTBEAT)));
    Ok(uri)
}

/// The address between brackets in the host of a URL.
fn ip_v6(url: &str) -> Option<&str> {
    let authority = url.split("//").nth(1)?.split(['/', '?']).next()?;
    let host = authority.rsplit('@').next()?;
    host.strip_prefix('[')?.split(']').next()
}

fn seconds(duration: Duration) -> u16 {
    u16::try_from(duration.as_secs()).unwrap_or(u16::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(url: &str) -> Result<RabbitMqOptions, BadUrl> {
        let messages = Messages::from_source("/shop").unwrap();
        RabbitMqOptions::new(url, "{event_type}".parse().unwrap(), messages)
    }

    /// K2: no password is shown, neither one that works nor one in a URL that does not.
    #[test]
    fn password_is_never_shown() {
        let shown = format!("{:?}", options("amqp://ada:hunter2@rabbit.example/%2f").unwrap());
        let refused = options("amqp:ada:hunter2@rabbit.example").unwrap_err();

        assert!(shown.contains("amqp://rabbit.example:5672"), "{shown}");
        for text in [shown, refused.to_string(), format!("{refused:?}")] {
            assert!(!text.contains("hunter2"), "{text}");
        }
    }

    /// K2: what is no URL of RabbitMQ is refused, with the form that is expected.
    #[test]
    fn bad_url_is_refused() {
        for bad in ["", "rabbit.example", "http://rabbit.example", "amqp:rabbit.example"] {
            let error = options(bad).unwrap_err().to_string();
            assert!(error.contains("write `amqp://user:password@host:5672/vhost`"), "{bad}: {error}");
        }
    }

    /// K2: address, virtual host and credentials come from the URL; those that are set win.
    #[test]
    fn url_says_where_and_who() {
        let set = options("amqps://ada:lovelace@[::1]/shop%2feu?heartbeat=30").unwrap();

        let AMQPUri { authority, vhost, query, .. } = &set.uri;
        assert_eq!((authority.host.as_str(), authority.port, vhost.as_str()), ("::1", 5671, "shop/eu"));
        assert_eq!((query.heartbeat, query.frame_max), (Some(30), Some(131_072)));
        let user = set.user("bob", "secret").uri.authority.userinfo;
        assert_eq!((user.username.as_str(), user.password.as_str()), ("bob", "secret"));
    }
}
