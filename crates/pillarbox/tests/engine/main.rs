//! The engine on the memory store, in paused time.

mod faults;
mod hot_path;
mod logs;
mod stage;
mod writing;
