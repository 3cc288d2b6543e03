//! Numbers of an outbox, for whatever records the [`metrics`] facade: Prometheus, StatsD, OpenTelemetry.
//!
//! ```
//! use metrics_exporter_prometheus::PrometheusBuilder;
//! use pillarbox::{MemoryStore, Outbox};
//! use pillarbox_metrics::Metrics;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let page = PrometheusBuilder::new().install_recorder()?;
//! let outbox = Outbox::builder(MemoryStore::new()).metrics(Metrics::of("orders")).start()?;
//!
//! assert!(page.render().contains(r#"pillarbox_hot_queue{outbox="orders"}"#));
//! # outbox.close().await;
//! # Ok(())
//! # }
//! ```
//!
//! - [`Metrics`] is the exporter of an outbox. Make it after the recorder was installed: it asks for its counters once.
//! - [`describe`] tells the recorder what the numbers mean; [`Metrics::of`] does that too.
//! - [`record_stats`], [`record_sinks`] and [`record_routes`] are for what is read now and then, and not told by the engine;
//!   [`forget_sink`] and [`forget_route`] for what is no longer there.
//!
//! What could not be read is unknown, and shown as `NaN`, never as 0.

mod exporter;
mod names;
mod readings;

pub use exporter::Metrics;
pub use names::describe;
pub use readings::{forget_route, forget_sink, record_routes, record_sinks, record_stats};
