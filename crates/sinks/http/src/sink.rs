//! The sink.

use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use pillarbox::{BoxFuture, Run, Sink, Template};
use pillarbox_message::Messages;
use reqwest::redirect::Policy;
use reqwest::{Client, ClientBuilder};
use tokio::sync::Semaphore;

use crate::address::Address;
use crate::resolver::Resolver;
use crate::round::Round;
use crate::{BadUrl, HttpOptions};

/// Shorter than any usual receiver keeps a connection: who uses one that is just being closed loses the answer.
const IDLE: Duration = Duration::from_secs(4);

/// Publishes events to one receiver by `POST`, one request for each event.
///
/// - `Ok` means that the receiver has answered with a status of 200 to 299.
/// - Events of one key are sent one after the other, in order; when one fails, those that follow it in the run are not
///   sent. Different keys, and events without one, are sent at the same time.
/// - A receiver that is down, or asks to be left alone, gets nothing more of the run.
pub struct HttpSink {
    pub(crate) address: Address,
    pub(crate) messages: Messages,
    pub(crate) options: HttpOptions,
    pub(crate) client: Client,
    pub(crate) slots: Semaphore,
}

/// Why there is no sink.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HttpSinkError {
    /// The URL is not one of a receiver.
    #[error("{0}")]
    Url(BadUrl),
    /// The URL names a private address.
    #[error("`{0}` is a private address; `allow_private` lets the sink connect to such addresses")]
    PrivateAddress(IpAddr),
    /// Nobody has said how to encrypt.
    #[error(
        "this program has no TLS provider; begin it with `rustls::crypto::ring::default_provider().install_default()`"
    )]
    NoTlsProvider,
    /// The client could not be made.
    #[error("the client could not be set up")]
    Client(#[source] Box<dyn std::error::Error + Send + Sync>),
}

impl HttpSink {
    /// A sink to the receiver at `url`, whose path and query events may fill. Nothing is connected yet.
    ///
    /// A route's address is a path at the same receiver, or a whole URL of it.
    pub fn new(url: Template, messages: Messages, options: HttpOptions) -> Result<Self, HttpSinkError> {
        let address = Address::new(url).map_err(HttpSinkError::Url)?;
        // Addresses are never asked of the resolver, so they are judged here.
        if let Some(literal) = address.literal().filter(|literal| !options.private.admit(*literal)) {
            return Err(HttpSinkError::PrivateAddress(literal));
        }
        if rustls::crypto::CryptoProvider::get_default().is_none() {
            return Err(HttpSinkError::NoTlsProvider);
        }
        let client = client(&options).build().map_err(|error| HttpSinkError::Client(error.into()))?;
        let slots = Semaphore::new(options.concurrency.min(Semaphore::MAX_PERMITS));
        Ok(Self { address, messages, options, client, slots })
    }
}

/// A client that does what it is told, and nothing that the environment or the receiver would like.
pub(crate) fn client(options: &HttpOptions) -> ClientBuilder {
    let client = Client::builder()
        .no_proxy()
        .redirect(Policy::none())
        .retry(reqwest::retry::never())
        .referer(false)
        .http1_only()
        .dns_resolver(Resolver { private: options.private.clone() })
        .connect_timeout(options.connect_timeout)
        .timeout(options.request_timeout)
        .pool_idle_timeout(IDLE);
    if options.certificates.is_empty() {
        client
    } else {
        client.tls_certs_merge(options.certificates.clone())
    }
}

impl Sink for HttpSink {
    fn publish<'a>(&'a self, run: &'a Run) -> BoxFuture<'a, ()> {
        Box::pin(Round::new(self, run).go())
    }
}

impl fmt::Debug for HttpSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpSink")
            .field("receiver", &self.address.origin())
            .field("messages", &self.messages)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}
