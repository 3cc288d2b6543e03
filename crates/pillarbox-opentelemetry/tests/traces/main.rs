//! Traces through the real engine, on the memory store in paused time, as the SDK exports them.

#![expect(clippy::unwrap_used, reason = "tests panic when something is wrong")]

mod delivering;
mod publishing;
mod restoring;
mod stage;
mod writing;
