//! The store by itself, on SQLite files.

#![expect(clippy::unwrap_used, reason = "tests panic when something is wrong")]

mod bad_files;
mod cancellations;
mod histories;
mod migrations;
mod modes;
mod orders;
mod owners;
mod plans;
mod pools;
mod read_only_files;
mod rows;
mod statements;
mod wake_ups;
