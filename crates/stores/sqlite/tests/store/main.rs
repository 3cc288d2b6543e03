//! The store by itself, on SQLite files.

#![expect(clippy::unwrap_used, reason = "tests panic when something is wrong")]

mod bad_files;
mod cancellations;
mod costs;
mod examinations;
mod histories;
mod members;
mod migrations;
mod modes;
mod orders;
mod outcomes;
mod owners;
mod plans;
mod pools;
mod processes;
mod read_only_files;
mod relays;
mod rows;
mod statements;
mod wake_ups;
