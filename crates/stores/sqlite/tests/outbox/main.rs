//! Whole outboxes on SQLite files.

#![expect(clippy::unwrap_used, reason = "tests panic when something is wrong")]

mod acceptance;
mod cancellation;
mod envelopes;
mod full_disk;
mod full_file;
mod hot_path;
mod ordered;
mod owned_processes;
mod processes;
mod replaced_file;
mod stage;
mod statements;
