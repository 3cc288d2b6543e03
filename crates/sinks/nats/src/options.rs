//! Where NATS is, who we are to it, and where events go.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use async_nats::{ServerAddr, jetstream};
use percent_encoding::percent_decode_str;
use pillarbox::Template;
use pillarbox_message::Messages;

/// What a [`NatsSink`](crate::NatsSink) needs to know.
///
/// | option | default |
/// |---|---|
/// | [`user`](Self::user), [`token`](Self::token), [`nkey`](Self::nkey), [`credentials_file`](Self::credentials_file) | what the URL says, else none |
/// | [`ca_file`](Self::ca_file), [`client_certificate`](Self::client_certificate) | the authorities of the system, no certificate |
/// | [`domain`](Self::domain) | the server's own JetStream |
/// | [`new_stream`](Self::new_stream) | none is made |
/// | [`connect_timeout`](Self::connect_timeout) | 5 s |
/// | [`ack_timeout`](Self::ack_timeout) | 10 s |
/// | [`in_flight`](Self::in_flight) | 500 events and 4 MiB of each run |
/// | [`connection_name`](Self::connection_name) | `pillarbox` |
#[derive(Clone)]
pub struct NatsOptions {
    /// Without credentials, for the client shows them in its logs.
    pub(crate) servers: Vec<ServerAddr>,
    pub(crate) subject: Template,
    pub(crate) messages: Messages,
    pub(crate) credentials: Credentials,
    pub(crate) ca_file: Option<PathBuf>,
    pub(crate) client_certificate: Option<(PathBuf, PathBuf)>,
    pub(crate) domain: Option<String>,
    pub(crate) new_stream: Option<NewStream>,
    pub(crate) connect_timeout: Duration,
    pub(crate) ack_timeout: Duration,
    pub(crate) max_events: usize,
    pub(crate) max_bytes: usize,
    pub(crate) connection_name: String,
}

/// Who we are to the server.
#[derive(Clone)]
pub(crate) enum Credentials {
    None,
    User { name: String, password: String },
    Token(String),
    Nkey(String),
    File(PathBuf),
}

/// A URL that leads to no NATS server. It is not repeated in the text: it may have a password in it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the URL of NATS is not understood: {0}; write `nats://user:password@host:4222`, or `tls://` for TLS, several \
     servers of a cluster with commas between them, and special characters as `%` and two digits"
)]
pub struct BadUrl(&'static str);

impl NatsOptions {
    /// Events go to the server at `url` (`nats://` or `tls://`; several with commas), under `subject` where their route
    /// says nothing else, as `messages`.
    pub fn new(url: &str, subject: Template, messages: Messages) -> Result<Self, BadUrl> {
        let mut credentials = Credentials::None;
        let mut servers = Vec::new();
        for one in url.split(',').map(str::trim) {
            let (server, in_url) = server(one)?;
            servers.push(server);
            if let Some(in_url) = in_url {
                credentials = in_url;
            }
        }
        Ok(Self {
            servers,
            subject,
            messages,
            credentials,
            ca_file: None,
            client_certificate: None,
            domain: None,
            new_stream: None,
            connect_timeout: Duration::from_secs(5),
            ack_timeout: Duration::from_secs(10),
            max_events: 500,
            max_bytes: 4 << 20,
            connection_name: "pillarbox".to_owned(),
        })
    }

    /// The user and the password, instead of those in the URL.
    #[must_use]
    pub fn user(mut self, name: impl Into<String>, password: impl Into<String>) -> Self {
        self.credentials = Credentials::User { name: name.into(), password: password.into() };
        self
    }

    /// A token, instead of a user.
    #[must_use]
    pub fn token(mut self, token: impl Into<String>) -> Self {
        self.credentials = Credentials::Token(token.into());
        self
    }

    /// The seed of an nkey (`SU…`), instead of a user.
    #[must_use]
    pub fn nkey(mut self, seed: impl Into<String>) -> Self {
        self.credentials = Credentials::Nkey(seed.into());
        self
    }

    /// A file with a JWT and its seed, as `nsc` makes it (`.creds`), instead of a user. It is read with each connection.
    #[must_use]
    pub fn credentials_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.credentials = Credentials::File(path.into());
        self
    }

    /// A file in PEM with the authorities that are trusted, instead of those of the system. It is read with each
    /// connection, and asks for no TLS by itself: that is what `tls://` does, or the server.
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

    /// The domain of JetStream in which streams are looked up and made; for servers behind a leaf node.
    #[must_use]
    pub fn domain(mut self, domain: impl Into<String>) -> Self {
        self.domain = Some(domain.into());
        self
    }

    /// A stream that is made if there is none of its name. One that is there stays as it is.
    #[must_use]
    pub fn new_stream(mut self, stream: NewStream) -> Self {
        self.new_stream = Some(stream);
        self
    }

    /// How long connecting, logging in and looking up the stream may take together.
    #[must_use]
    pub fn connect_timeout(mut self, limit: Duration) -> Self {
        self.connect_timeout = limit;
        self
    }

    /// How long an acknowledgement may take. Make it shorter than the outbox's `delivery_timeout`.
    #[must_use]
    pub fn ack_timeout(mut self, limit: Duration) -> Self {
        self.ack_timeout = limit;
        self
    }

    /// How much of a run may wait for acknowledgements at a time; one event is always sent. With one event, none is sent
    /// before the one in front of it is acknowledged.
    #[must_use]
    pub fn in_flight(mut self, events: usize, bytes: usize) -> Self {
        (self.max_events, self.max_bytes) = (events, bytes);
        self
    }

    /// The name of the connection, as the server lists it.
    #[must_use]
    pub fn connection_name(mut self, name: impl Into<String>) -> Self {
        self.connection_name = name.into();
        self
    }

    /// The servers, for texts.
    pub(crate) fn place(&self) -> String {
        let places = self.servers.iter().map(|server| format!("{}:{}", server.host(), server.port()));
        places.collect::<Vec<_>>().join(", ")
    }
}

impl fmt::Debug for NatsOptions {
    /// Without credentials.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NatsOptions")
            .field("servers", &self.place())
            .field("subject", &self.subject)
            .field("messages", &self.messages)
            .field("new_stream", &self.new_stream)
            .field("connect_timeout", &self.connect_timeout)
            .field("ack_timeout", &self.ack_timeout)
            .finish_non_exhaustive()
    }
}

/// The address of a server, and who we are to it, if the URL says so: `user:password`, or a token alone.
fn server(url: &str) -> Result<(ServerAddr, Option<Credentials>), BadUrl> {
    // The client reads no credentials from URLs, and shows URLs in its logs.
    let mut url = url.parse::<ServerAddr>().map_err(|_| BadUrl("it is no URL"))?.into_inner();
    if !["nats", "tls"].contains(&url.scheme()) {
        return Err(BadUrl("it begins with neither `nats://` nor `tls://`"));
    }
    let decoded = |text: &str| percent_decode_str(text).decode_utf8().map(String::from);
    let name = decoded(url.username()).map_err(|_| BadUrl("the user is no UTF-8"))?;
    let password = url.password().map(decoded).transpose().map_err(|_| BadUrl("the password is no UTF-8"))?;
    let credentials = match (name, password) {
        (name, Some(password)) => Some(Credentials::User { name, password }),
        (token, None) if !token.is_empty() => Some(Credentials::Token(token)),
        _ => None,
    };
    let no_host = BadUrl("it names no host");
    url.set_username("").and_then(|()| url.set_password(None)).map_err(|()| no_host.clone())?;
    let server = ServerAddr::from_url(url).map_err(|_| no_host.clone())?;
    if server.host().is_empty() { Err(no_host) } else { Ok((server, credentials)) }
}

/// A stream that is made if there is none of its name: on disk, and full of everything until its limits are set by the
/// operator or by [`max_age`](Self::max_age).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewStream {
    name: String,
    subjects: Vec<String>,
    replicas: usize,
    duplicate_window: Duration,
    max_age: Duration,
}

impl NewStream {
    /// A stream on disk that takes `subjects` (with wildcards, if you like), on one server, that recognises duplicates
    /// for two minutes and deletes nothing.
    pub fn new(name: impl Into<String>, subjects: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self {
            name: name.into(),
            subjects: subjects.into_iter().map(Into::into).collect(),
            replicas: 1,
            duplicate_window: Duration::from_secs(120),
            max_age: Duration::ZERO,
        }
    }

    /// On how many servers of a cluster it is kept: 1, 3 or 5.
    #[must_use]
    pub fn replicas(mut self, count: usize) -> Self {
        self.replicas = count;
        self
    }

    /// How long the server remembers event ids, so that an event that comes again is not stored twice.
    #[must_use]
    pub fn duplicate_window(mut self, window: Duration) -> Self {
        self.duplicate_window = window;
        self
    }

    /// After how long events are deleted from the stream.
    #[must_use]
    pub fn max_age(mut self, age: Duration) -> Self {
        self.max_age = age;
        self
    }

    pub(crate) fn config(&self) -> jetstream::stream::Config {
        jetstream::stream::Config {
            name: self.name.clone(),
            subjects: self.subjects.clone(),
            num_replicas: self.replicas,
            duplicate_window: self.duplicate_window,
            max_age: self.max_age,
            storage: jetstream::stream::StorageType::File,
            ..Default::default()
        }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(url: &str) -> Result<NatsOptions, BadUrl> {
        NatsOptions::new(url, "orders".parse().unwrap(), Messages::from_source("/shop").unwrap())
    }

    /// Credentials are taken from the URL, decoded, and from nowhere else shown.
    #[test]
    fn credentials_in_the_url_are_used_and_never_shown() {
        let options = options("nats://shop:p%40ss@one.example:4223, nats://two.example").unwrap();

        let Credentials::User { name, password } = &options.credentials else { panic!("no user") };
        assert_eq!((name.as_str(), password.as_str()), ("shop", "p@ss"));
        assert_eq!(options.place(), "one.example:4223, two.example:4222");
        assert_eq!(options.servers[0].as_url_str(), "nats://one.example:4223");
        let shown = format!("{options:?}");
        assert!(!shown.contains("p@ss") && !shown.contains("p%40ss"), "{shown}");
    }

    #[test]
    fn name_alone_is_a_token() {
        let options = options("nats://s3cret@one.example").unwrap();

        assert!(matches!(&options.credentials, Credentials::Token(token) if token == "s3cret"));
    }

    #[test]
    fn bad_url_is_refused_without_repeating_it() {
        for bad in
            ["http://u:secret@host", "ws://u:secret@host", "nats://u:secret@", "", "nats://a,,nats://b"]
        {
            let error = options(bad).unwrap_err().to_string();

            assert!(error.starts_with("the URL of NATS is not understood: "), "{bad}: {error}");
            assert!(!error.contains("secret"), "{error}");
        }
    }
}
