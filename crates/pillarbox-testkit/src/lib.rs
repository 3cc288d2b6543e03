//! What it takes to trust an outbox: promises that every store is held to.
//!
//! [`conformance`] has one case per promise of the store contracts, and [`conformance!`] turns them into one
//! named test each for a store of yours. [`acceptance`] has the acceptance tests of a whole outbox, and
//! [`paused`] a runtime on which an hour passes at once. [`faulty`] puts faults between an outbox and its
//! store, [`ledger`] counts what was written and what arrived, and [`sim`] runs the real engine with both in
//! simulated time, from a seed.

pub mod acceptance;
pub mod conformance;
pub mod faulty;
pub mod ledger;
pub mod paused;
pub mod sim;
