//! Publishes events of Pillarbox, the transactional outbox, to RabbitMQ.
//!
//! ```no_run
//! use pillarbox::{MemoryStore, Outbox};
//! use pillarbox_message::Messages;
//! use pillarbox_rabbitmq::{RabbitMqOptions, RabbitMqSink};
//!
//! #[tokio::main]
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let messages = Messages::from_source("/shop/orders")?;
//!     let options = RabbitMqOptions::new("amqp://relay:secret@localhost:5672/%2f", "{event_type}".parse()?, messages)?;
//!     let sink = RabbitMqSink::new(options.exchange("shop".parse()?));
//!     for finding in sink.check().await {
//!         println!("{finding}");
//!     }
//!
//!     let outbox = Outbox::builder(MemoryStore::new()).on_sink("Order", "OrderPlaced", sink).start()?;
//!     outbox.close().await;
//!     Ok(())
//! }
//! ```
//!
//! - [`RabbitMqOptions`] say where the server is, and where events go.
//! - [`RabbitMqSink`] publishes them: persistent, mandatory and with confirms, which cannot be switched off.

mod arrivals;
mod check;
mod fault;
mod flight;
mod link;
mod options;
mod publication;
mod returns;
mod sink;

pub use options::{BadUrl, RabbitMqOptions};
pub use sink::RabbitMqSink;

#[cfg(doctest)]
#[doc = include_str!("../../../../docs/guide/sinks-rabbitmq.md")]
struct Guide;
