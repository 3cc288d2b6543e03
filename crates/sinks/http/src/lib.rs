//! Publishes events over HTTP: webhooks with [standard signatures](https://www.standardwebhooks.com), in
//! [CloudEvents 1.0](https://cloudevents.io).
//!
//! ```
//! use pillarbox::{MemoryStore, Outbox};
//! use pillarbox_http::{HttpOptions, HttpSink};
//! use pillarbox_message::Messages;
//!
//! # #[tokio::main]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // Once in a program, before anything uses TLS.
//! let _ = rustls::crypto::ring::default_provider().install_default();
//!
//! let options = HttpOptions::new().sign_with("whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD".parse()?);
//! let url = "https://hooks.example/orders/{event_type}".parse()?;
//! let sink = HttpSink::new(url, Messages::from_source("/shop")?, options)?;
//!
//! let outbox = Outbox::builder(MemoryStore::new()).on_sink("Order", "OrderPlaced", sink).start()?;
//! outbox.close().await;
//! # Ok(())
//! # }
//! ```
//!
//! - [`HttpSink`] sends a `POST` for each event: those of one key one after the other, others at the same time. `Ok`
//!   means that the receiver has answered with a status of 200 to 299.
//! - [`HttpOptions`] has what can be chosen, and the defaults.
//! - [`WebhookSecret`] signs; several of them change one for another without a gap.
//! - [`PrivateAddresses`] are refused unless they are allowed, so that nobody reaches through the sink what only it can
//!   reach.
//!
//! Redirects are not followed, proxies in the environment are not used, and there are no cookies. Which answer of a
//! receiver means what is told in the guide.

mod address;
mod check;
mod network;
mod options;
mod private;
mod request;
mod resolver;
mod round;
mod secret;
mod sink;
mod verdict;

pub use address::BadUrl;
pub use network::{BadNetwork, Network};
pub use options::{BadCertificate, BadHeader, HttpOptions};
pub use private::PrivateAddresses;
pub use secret::{BadSecret, WebhookSecret};
pub use sink::{HttpSink, HttpSinkError};

#[cfg(doctest)]
#[doc = include_str!("../../../../docs/guide/sinks-http.md")]
struct Guide;
