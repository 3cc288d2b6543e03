//! What can be chosen about a sink.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use reqwest::Certificate;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};

use crate::request::is_ours;
use crate::{PrivateAddresses, WebhookSecret};

/// How a sink speaks to its receiver. The defaults suit a receiver on the internet.
#[derive(Clone)]
pub struct HttpOptions {
    pub(crate) headers: HeaderMap,
    pub(crate) secrets: Vec<WebhookSecret>,
    pub(crate) private: PrivateAddresses,
    pub(crate) certificates: Vec<Certificate>,
    pub(crate) concurrency: usize,
    pub(crate) connect_timeout: Duration,
    pub(crate) request_timeout: Duration,
    pub(crate) send_for: Duration,
    pub(crate) max_body: usize,
    pub(crate) clock: Arc<dyn Fn() -> SystemTime + Send + Sync>,
}

/// A header that cannot be sent with every request. It does not repeat the value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadHeader {
    /// The name or the value is not one that HTTP has.
    #[error("`{0}` is no header of HTTP, or its value has characters that HTTP cannot carry")]
    NotHttp(String),
    /// The sink or the transport sets it.
    #[error("the header `{0}` is set by the sink itself")]
    Ours(String),
}

/// Certificates that cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("no certificates in PEM, which begins with `-----BEGIN CERTIFICATE-----`")]
pub struct BadCertificate(#[source] Option<Box<dyn std::error::Error + Send + Sync>>);

impl HttpOptions {
    /// The defaults: unsigned, no private addresses, 16 requests at a time, 10 seconds for each.
    pub fn new() -> Self {
        Self {
            headers: HeaderMap::new(),
            secrets: Vec::new(),
            private: PrivateAddresses::default(),
            certificates: Vec::new(),
            concurrency: 16,
            connect_timeout: Duration::from_secs(5),
            request_timeout: Duration::from_secs(10),
            send_for: Duration::from_secs(15),
            max_body: usize::MAX,
            clock: Arc::new(SystemTime::now),
        }
    }

    /// Adds a secret to sign with. While the receiver changes from an old one to a new one, give both, the new one
    /// first: each makes a signature. By default nothing is signed.
    #[must_use]
    pub fn sign_with(mut self, secret: WebhookSecret) -> Self {
        self.secrets.push(secret);
        self
    }

    /// Adds a header to every request, such as `authorization`. Its value is taken for a secret: it is never shown.
    pub fn header(mut self, name: &str, value: &str) -> Result<Self, BadHeader> {
        let not_http = || BadHeader::NotHttp(name.to_owned());
        let header: HeaderName = name.parse().map_err(|_| not_http())?;
        let mut value: HeaderValue = value.parse().map_err(|_| not_http())?;
        if is_ours(&header) {
            return Err(BadHeader::Ours(name.to_owned()));
        }
        value.set_sensitive(true);
        self.headers.append(header, value);
        Ok(self)
    }

    /// Sets which private addresses the sink may connect to; by default none.
    #[must_use]
    pub fn allow_private(mut self, private: PrivateAddresses) -> Self {
        self.private = private;
        self
    }

    /// Adds certificates, in PEM, of authorities that are trusted along with those of the system.
    pub fn trust(mut self, pem: &[u8]) -> Result<Self, BadCertificate> {
        let certificates =
            Certificate::from_pem_bundle(pem).map_err(|error| BadCertificate(Some(error.into())))?;
        if certificates.is_empty() {
            return Err(BadCertificate(None));
        }
        self.certificates.extend(certificates);
        Ok(self)
    }

    /// Sets how many requests are under way at once, of all runs together; by default 16. Events of one key are sent
    /// one after the other in any case.
    #[must_use]
    pub fn concurrency(mut self, concurrency: usize) -> Self {
        self.concurrency = concurrency.max(1);
        self
    }

    /// Sets how long a connection may take to be made, TLS included; by default 5 seconds.
    #[must_use]
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// Sets how long a request may take, from connecting to the end of the answer; by default 10 seconds.
    #[must_use]
    pub fn request_timeout(mut self, timeout: Duration) -> Self {
        self.request_timeout = timeout;
        self
    }

    /// Sets how long a run goes on starting requests; by default 15 seconds. What is left then is given back for a later
    /// run. Together with the time-out of a request it must be less than the outbox's `delivery_timeout`.
    #[must_use]
    pub fn send_for(mut self, time: Duration) -> Self {
        self.send_for = time;
        self
    }

    /// Sets the largest body that is sent, in bytes; larger events are rejected for good. By default there is no limit.
    #[must_use]
    pub fn max_body(mut self, bytes: usize) -> Self {
        self.max_body = bytes;
        self
    }

    /// Sets what time it is, for signatures and for answers that name a time; by default the system's time.
    #[must_use]
    pub fn clock(mut self, now: impl Fn() -> SystemTime + Send + Sync + 'static) -> Self {
        self.clock = Arc::new(now);
        self
    }
}

impl Default for HttpOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for HttpOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpOptions")
            .field("headers", &self.headers.keys().collect::<Vec<_>>())
            .field("secrets", &self.secrets.len())
            .field("private", &self.private)
            .field("certificates", &self.certificates.len())
            .field("concurrency", &self.concurrency)
            .field("connect_timeout", &self.connect_timeout)
            .field("request_timeout", &self.request_timeout)
            .field("send_for", &self.send_for)
            .field("max_body", &self.max_body)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// K2: what is secret is in no text.
    #[test]
    fn secrets_are_not_shown() {
        let options = HttpOptions::new()
            .sign_with("whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD".parse().unwrap())
            .header("Authorization", "Bearer s3cret")
            .unwrap();

        let shown = format!("{options:?}");

        assert!(shown.contains(r#"headers: ["authorization"], secrets: 1"#), "{shown}");
        assert!(!shown.contains("s3cret") && !shown.contains("C2FV"), "{shown}");
        let error = HttpOptions::new().header("authorization", "Bearer s3cret\n").unwrap_err();
        assert!(!error.to_string().contains("s3cret"), "{error}");
    }

    /// K2: headers that the sink sets itself cannot be set by others.
    #[test]
    fn headers_of_the_sink_are_refused() {
        for name in ["Host", "content-type", "content-length", "ce-id", "event-id", "Webhook-Signature"] {
            assert_eq!(HttpOptions::new().header(name, "x").unwrap_err(), BadHeader::Ours(name.to_owned()));
        }
        assert!(matches!(HttpOptions::new().header("a b", "x"), Err(BadHeader::NotHttp(_))));
    }

    /// K2: a file that has no certificates is not taken for one that has.
    #[test]
    fn pem_without_certificates_is_refused() {
        assert!(HttpOptions::new().trust(b"not a certificate").is_err());
    }
}
