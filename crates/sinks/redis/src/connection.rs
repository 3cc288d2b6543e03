//! The connection to the server: made when it is needed, given up when it is lost.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use pillarbox::SinkError;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, ClientTlsConfig, RedisError, TlsCertificates};
use tokio::time::timeout;

use crate::options::RedisOptions;
use crate::verdict::cause;

/// The one connection of a sink, if there is one now.
pub(crate) struct Slot {
    connection: tokio::sync::Mutex<Option<Connection>>,
    made: AtomicU64,
}

/// A connection that many runs share. What each sends has a place of its own in the line for answers, which it keeps when
/// nobody waits for it any more, so that no answer is taken for another's. It is never made anew by itself.
#[derive(Clone)]
pub(crate) struct Connection {
    pub(crate) commands: MultiplexedConnection,
    number: u64,
}

impl Slot {
    pub(crate) fn empty() -> Self {
        Self { connection: tokio::sync::Mutex::new(None), made: AtomicU64::new(0) }
    }

    /// The connection, made anew if there is none. Whoever waits for another to make it waits no longer than if it made it
    /// itself.
    pub(crate) async fn connection(&self, options: &RedisOptions) -> Result<Connection, SinkError> {
        let made = timeout(options.connect_timeout, async {
            let mut slot = self.connection.lock().await;
            if let Some(connection) = &*slot {
                return Ok(connection.clone());
            }
            let number = self.made.fetch_add(1, Ordering::Relaxed);
            Ok(slot.insert(Connection { commands: open(options).await?, number }).clone())
        });
        made.await.unwrap_or_else(|_| {
            let (place, limit) = (options.place(), options.connect_timeout);
            Err(SinkError::unavailable(format!("Redis at {place} did not answer within {limit:?}")))
        })
    }

    /// Gives up a connection, so that the next run makes another; who still waits for answers on it keeps it.
    pub(crate) async fn forget(&self, lost: &Connection) {
        let mut slot = self.connection.lock().await;
        if slot.as_ref().is_some_and(|connection| connection.number == lost.number) {
            *slot = None;
        }
    }
}

async fn open(options: &RedisOptions) -> Result<MultiplexedConnection, SinkError> {
    let place = options.place();
    let refused = |error: RedisError| {
        SinkError::unavailable(format!("Redis at {place} cannot be used: {}", cause(&error)))
    };
    let waiting = options.replicas.map(|replicas| replicas.within).unwrap_or_default();
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(options.connect_timeout))
        .set_response_timeout(Some(options.answer_timeout + waiting));
    let client = client(options).await?.map_err(refused)?;
    client.get_multiplexed_async_connection_with_config(&config).await.map_err(refused)
}

/// A client with the certificates that were asked for, which are read anew each time.
async fn client(options: &RedisOptions) -> Result<Result<Client, RedisError>, SinkError> {
    if options.ca_file.is_none() && options.client_certificate.is_none() {
        return Ok(Client::open(options.server.clone()));
    }
    let root_cert = match &options.ca_file {
        Some(path) => Some(read(path).await?),
        None => None,
    };
    let client_tls = match &options.client_certificate {
        Some((certificate, key)) => {
            Some(ClientTlsConfig { client_cert: read(certificate).await?, client_key: read(key).await? })
        }
        None => None,
    };
    Ok(Client::build_with_tls(options.server.clone(), TlsCertificates { client_tls, root_cert }))
}

async fn read(path: &Path) -> Result<Vec<u8>, SinkError> {
    let (path, shown) = (path.to_owned(), path.display().to_string());
    let text = tokio::task::spawn_blocking(move || std::fs::read(path)).await;
    text.map_err(std::io::Error::other)
        .flatten()
        .map_err(|error| SinkError::unavailable(format!("`{shown}` cannot be read: {error}")))
}
