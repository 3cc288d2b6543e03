//! What the SQL stores and adapters of Pillarbox have in common.
//!
//! For those who write a store or an adapter; of all this an application needs [`Names`] at most. There is no
//! dialect layer here: each store writes its SQL out, and all are held to the same promises by the conformance
//! suite.
//!
//! - [`Names`] puts a schema and a prefix before the names of tables.
//! - [`Step`] is database work that runs to its end even if nobody waits for it any more.
//! - [`chunks`] and [`repeated_id`] prepare an INSERT; [`check_lease`], [`micros`], [`rows`] and [`kept`] what is bound.
//! - [`in_records`] divides visits of partitions among statements.
//! - [`KnownLocks`] remembers which rows others have locked.
//! - [`Ears`] pass news on to every handle of a store.
//! - [`census`] is put together from what statements find.
//! - [`diagnosis`] judges what a store found out about its database.
//! - [`members`] are instances, modes and partitions as they are stored.
//! - [`url`] answers misspelt options of a URL.
//! - [`canonical`] is the INSERT by which adapters write through drivers that are not ours.

mod bind;
pub mod canonical;
pub mod census;
pub mod diagnosis;
mod ears;
mod events;
mod locks;
pub mod members;
mod names;
mod step;
pub mod url;
mod visits;

pub use bind::{check_lease, counted, for_now, kept, micros, refusal, rows};
pub use ears::{Ear, Ears};
pub use events::{chunks, repeated_id};
pub use locks::KnownLocks;
pub use names::{Names, quoted};
pub use step::{Panicked, Step, to_its_end};
pub use visits::in_records;
