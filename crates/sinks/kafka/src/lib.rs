//! Publishes events of Pillarbox, the transactional outbox, to Apache Kafka.
//!
//! ```no_run
//! use pillarbox::{MemoryStore, Outbox};
//! use pillarbox_kafka::{KafkaOptions, KafkaSink};
//! use pillarbox_message::Messages;
//!
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! let messages = Messages::from_source("/shop/orders")?;
//! let kafka = KafkaSink::new(KafkaOptions::new("127.0.0.1:9092", "shop.{aggregate_type}".parse()?, messages))?;
//! let outbox = Outbox::builder(MemoryStore::new()).on_sink("Order", "OrderPlaced", kafka).start()?;
//! # outbox.close().await;
//! # Ok(())
//! # }
//! ```
//!
//! - [`KafkaSink`] publishes: idempotent, with the acknowledgement of all in-sync replicas, in the order of each key.
//!   [`KafkaSink::check`] says what of the cluster's settings weakens that.
//! - [`KafkaOptions`] are its options, [`Sasl`] and [`Tls`] those of security.
//!
//! The client is librdkafka, which is built along. The feature `tls` adds an OpenSSL, for TLS and SCRAM.

mod check;
mod client;
mod failure;
mod options;
mod record;
mod security;
mod sink;
mod topic;

pub use options::{KafkaOptions, KafkaOptionsError};
pub use security::{Sasl, Tls};
pub use sink::KafkaSink;

/// The page of the guide, whose programs are compiled.
#[cfg(doctest)]
#[doc = include_str!("../../../../docs/guide/sinks-kafka.md")]
mod guide {}
