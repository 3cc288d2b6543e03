//! Publishes events of Pillarbox, the transactional outbox, to Redis Streams.
//!
//! ```no_run
//! use pillarbox::{MemoryStore, Outbox};
//! use pillarbox_message::Messages;
//! use pillarbox_redis::{RedisOptions, RedisSink, Trim};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let messages = Messages::from_source("/shop/orders")?;
//! let options = RedisOptions::new("redis://localhost:6379/0", "shop:{event_type}".parse()?, messages)?
//!     .user("shop", std::env::var("REDIS_PASSWORD")?)
//!     .trim(Trim::ToLength(1_000_000));
//! let sink = RedisSink::new(options);
//! for finding in sink.check().await {
//!     eprintln!("{finding}");
//! }
//! let outbox = Outbox::builder(MemoryStore::new()).on_sink("Order", "OrderPlaced", sink).start()?;
//! # outbox.close().await;
//! # Ok(())
//! # }
//! ```
//!
//! - [`RedisOptions`] says where the server is, who we are to it, and where events go.
//! - [`RedisSink`] publishes, and [checks](RedisSink::check) its server.
//! - [`Trim`] says what of a stream is deleted when it grows.

mod check;
mod connection;
mod entry;
mod options;
mod sink;
mod verdict;

pub use options::{BadUrl, RedisOptions, Trim};
pub use sink::RedisSink;

#[cfg(doctest)]
#[doc = include_str!("../../../../docs/guide/sinks-redis.md")]
struct Guide;
