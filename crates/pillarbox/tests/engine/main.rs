//! The engine on the memory store, in paused time.

#![expect(clippy::unwrap_used, reason = "tests panic when something is wrong")]

mod ambient;
mod announcing;
mod codecs;
mod configuration;
mod dependencies;
mod disabling;
mod dispatching;
mod failing_over;
mod falling_back;
mod faults;
mod gone_handlers;
mod handling;
mod hinting;
mod hot_path;
mod intercepting;
mod logs;
mod members;
mod metrics;
mod namesakes;
mod operating;
mod outages;
mod owning;
mod owning_under_fault;
mod passes;
mod passing_on;
mod polling;
mod registries;
mod retrying;
mod settings;
mod settings_at_work;
mod settings_refused;
mod settling;
mod sharing;
mod shutdown;
mod sinks;
mod stage;
mod statistics;
mod surroundings;
mod topologies;
mod traceability;
mod traces;
mod writing;
