//! The connection to the server: made when it is needed, given up when it is lost.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_nats::connection::State;
use async_nats::jetstream::{self, ContextBuilder};
use async_nats::{Client, ConnectError, ConnectErrorKind, ConnectOptions, Event, ServerError};
use pillarbox::SinkError;
use tokio::time::timeout;

use crate::options::{Credentials, NatsOptions};

/// Where nobody listens. See [`Connection::open`].
const NOWHERE: &str = "nats://0.0.0.0:0";

/// How often the server is asked whether it lives; the third time without an answer the connection is given up.
const PING_EVERY: Duration = Duration::from_secs(5);

/// The one connection of a sink, if there is one now.
pub(crate) struct Slot(tokio::sync::Mutex<Option<Connection>>);

impl Slot {
    pub(crate) fn empty() -> Self {
        Self(tokio::sync::Mutex::new(None))
    }

    /// The connection, made anew if there is none or it was lost. Whoever waits for another to make it waits no longer
    /// than if it made it itself.
    pub(crate) async fn connection(&self, options: &NatsOptions) -> Result<Connection, SinkError> {
        let made = timeout(options.connect_timeout, async {
            let mut slot = self.0.lock().await;
            match &*slot {
                Some(connection) if connection.is_up() => Ok(connection.clone()),
                _ => {
                    *slot = None;
                    let connection = Connection::open(options).await?;
                    Ok(slot.insert(connection).clone())
                }
            }
        });
        made.await.unwrap_or_else(|_| {
            let (place, limit) = (options.place(), options.connect_timeout);
            Err(SinkError::unavailable(format!("NATS at {place} did not answer within {limit:?}")))
        })
    }

    /// Gives up a connection, so that the next run makes another; who still waits for answers on it keeps it.
    pub(crate) async fn forget(&self, lost: &Connection) {
        let mut slot = self.0.lock().await;
        if slot.as_ref().is_some_and(|connection| Arc::ptr_eq(&connection.complaint, &lost.complaint)) {
            *slot = None;
        }
    }
}

/// A connection that ends for good when it is lost.
#[derive(Clone)]
pub(crate) struct Connection {
    client: Client,
    pub(crate) jetstream: jetstream::Context,
    /// What the server last complained about; it does not say over which message.
    complaint: Arc<Mutex<Option<String>>>,
}

impl Connection {
    /// Connects, and makes the stream if one was asked for and is not there.
    ///
    /// Left to itself, the client would connect again when the connection is lost, and then send what it still held,
    /// long after we have called it unknown, while those who wait for acknowledgements hear nothing. So its way back is
    /// closed: it ends, what it holds is gone, and all who wait are told at once.
    async fn open(options: &NatsOptions) -> Result<Self, SinkError> {
        let complaint = Arc::new(Mutex::new(None));
        let client = client_options(options, complaint.clone()).await?;
        let client = client.connect(options.servers.as_slice()).await;
        let client = client.map_err(|error| refused(options, &error))?;
        client.set_server_pool(NOWHERE).await.map_err(|error| {
            SinkError::unavailable(format!("the connection to NATS at {} was lost: {error}", options.place()))
        })?;
        let context = match &options.domain {
            Some(domain) => ContextBuilder::new().domain(domain).timeout(options.ack_timeout),
            None => ContextBuilder::new().timeout(options.ack_timeout),
        };
        let connection = Self { jetstream: context.build(client.clone()), client, complaint };
        if let Some(stream) = &options.new_stream {
            let made = connection.jetstream.get_or_create_stream(stream.config()).await;
            made.map_err(|error| {
                SinkError::unavailable(format!(
                    "the stream `{}` could neither be found nor be made: {error}",
                    stream.name()
                ))
            })?;
        }
        Ok(connection)
    }

    pub(crate) fn is_up(&self) -> bool {
        self.client.connection_state() == State::Connected
    }

    /// The largest message that the server takes, headers included.
    pub(crate) fn max_payload(&self) -> usize {
        self.client.max_payload()
    }

    /// What the server last complained about.
    pub(crate) fn complaint(&self) -> Option<String> {
        self.complaint.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

async fn client_options(
    options: &NatsOptions,
    complaint: Arc<Mutex<Option<String>>>,
) -> Result<ConnectOptions, SinkError> {
    let mut client = ConnectOptions::new()
        .name(&options.connection_name)
        .connection_timeout(
            options.connect_timeout / u32::try_from(options.servers.len()).unwrap_or(u32::MAX),
        )
        .request_timeout(Some(options.ack_timeout))
        .ping_interval(PING_EVERY)
        .reconnect_delay_callback(|_| Duration::ZERO)
        .ignore_discovered_servers()
        .max_reconnects(options.servers.len())
        .event_callback(move |event| {
            if let Event::ServerError(ServerError::Other(text)) = event {
                *complaint.lock().unwrap_or_else(PoisonError::into_inner) = Some(text);
            }
            std::future::ready(())
        });
    client = match &options.credentials {
        Credentials::None => client,
        Credentials::User { name, password } => client.user_and_password(name.clone(), password.clone()),
        Credentials::Token(token) => client.token(token.clone()),
        Credentials::Nkey(seed) => client.nkey(seed.clone()),
        Credentials::File(path) => client.credentials_file(path).await.map_err(|error| {
            SinkError::unavailable(format!("the credentials in `{}` cannot be read: {error}", path.display()))
        })?,
    };
    if let Some(path) = &options.ca_file {
        client = client.add_root_certificates(path.clone());
    }
    if let Some((certificate, key)) = &options.client_certificate {
        client = client.add_client_certificate(certificate.clone(), key.clone());
    }
    Ok(client)
}

/// Why there is no connection. Nothing was sent.
fn refused(options: &NatsOptions, error: &ConnectError) -> SinkError {
    let place = options.place();
    SinkError::unavailable(match error.kind() {
        ConnectErrorKind::AuthorizationViolation => {
            format!("NATS at {place} does not accept the credentials")
        }
        ConnectErrorKind::Authentication => {
            format!("the nkey or the credentials file for NATS at {place} cannot be used to sign: {error}")
        }
        ConnectErrorKind::Tls => format!("no TLS with NATS at {place}: {error}"),
        _ => format!("NATS at {place} cannot be reached: {error}"),
    })
}
