//! What it takes to trust an outbox: promises that every store and every outbox is held to.
//!
//! - [`mod@conformance`] has one case per promise of the store contracts; [`conformance!`] turns them into one
//!   named test each for a store of yours.
//! - [`mod@acceptance`] has one case per promise of a whole outbox; [`acceptance!`] does the same with them.
//! - [`mod@cancellations`] has one case per call of a store that is dropped in the middle; [`cancellations!`] does the
//!   same with them.
//! - [`cluster`] has several processes share an outbox, and kills some of them.
//! - [`mod@adapters`] has one case per promise of an adapter to a driver of the user's own.
//! - [`mod@sinks`] has one case per promise of a sink.
//! - [`paused`] has a runtime on which an hour passes at once.
//! - [`faulty`] puts faults between an outbox and its store.
//! - [`ledger`] counts what was written and what became of it.
//! - [`partition_vectors`] has keys and the partitions that they belong to.
//! - [`port`] finds a free port, and waits until somebody listens.
//! - [`proxy`] loses answers and cuts connections.
//! - [`servers`] runs all of that on real servers, and says by name what it could not run; some are a trial's own.
//! - [`sim`] runs the real engine with both of these in simulated time, from a seed.
//! - [`statements`] counts what is sent to a database.

pub mod acceptance;
pub mod adapters;
pub mod cancellations;
pub mod chaos;
pub mod cluster;
pub mod conformance;
pub mod faulty;
pub mod ledger;
pub mod partition_vectors;
pub mod paused;
pub mod port;
pub mod proxy;
pub mod servers;
pub mod sim;
pub mod sinks;
pub mod statements;
