//! What it takes to trust an outbox: promises that every store is held to.
//!
//! [`conformance`] has one case per promise of the store contracts, and [`conformance!`] turns them into one
//! named test each for a store of yours. [`acceptance`] has the acceptance tests of a whole outbox, and
//! [`paused`] a runtime on which an hour passes at once.

pub mod acceptance;
pub mod conformance;
pub mod paused;
