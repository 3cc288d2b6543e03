//! Publishes events of Pillarbox, the transactional outbox, to NATS JetStream.
//!
//! ```no_run
//! use pillarbox::{MemoryStore, Outbox};
//! use pillarbox_message::Messages;
//! use pillarbox_nats::{NatsOptions, NatsSink, NewStream};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let messages = Messages::from_source("/shop/orders")?;
//! let options = NatsOptions::new("nats://localhost:4222", "shop.{event_type}".parse()?, messages)?
//!     .user("shop", std::env::var("NATS_PASSWORD")?)
//!     .new_stream(NewStream::new("SHOP", ["shop.>"]));
//! let sink = NatsSink::new(options);
//! for finding in sink.check().await {
//!     eprintln!("{finding}");
//! }
//! let outbox = Outbox::builder(MemoryStore::new()).on_sink("Order", "OrderPlaced", sink).start()?;
//! # outbox.close().await;
//! # Ok(())
//! # }
//! ```
//!
//! - [`NatsOptions`] says where the server is, who we are to it, and where events go.
//! - [`NatsSink`] publishes, and [checks](NatsSink::check) its server.
//! - [`NewStream`] is a stream that the sink makes if it is not there.

mod check;
mod connection;
mod homeless;
mod options;
mod publication;
mod sink;
mod subject;
mod verdict;

pub use options::{BadUrl, NatsOptions, NewStream};
pub use sink::NatsSink;

#[cfg(doctest)]
#[doc = include_str!("../../../../docs/guide/sinks-nats.md")]
struct Guide;
