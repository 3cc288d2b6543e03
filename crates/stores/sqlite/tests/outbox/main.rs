//! Whole outboxes on SQLite files.

mod acceptance;
mod cancellation;
mod hot_path;
mod processes;
mod stage;
mod statements;
