//! Whether what is written gets into the table.

use std::sync::atomic::{AtomicBool, Ordering};

use super::WriteError;
use crate::config::Config;

/// Decides what becomes of written events.
pub(super) struct Gate {
    is_enabled: bool,
    discards: bool,
    stores: bool,
    /// Whether somebody was told that events are thrown away.
    has_warned: AtomicBool,
}

impl Gate {
    pub(super) fn new(config: &Config) -> Self {
        Self {
            is_enabled: config.enabled,
            discards: config.discard_when_disabled,
            stores: config.store_events,
            has_warned: AtomicBool::new(false),
        }
    }

    /// Whether events are stored; an error if they may not be written at all.
    pub(super) fn is_stored(&self) -> Result<bool, WriteError> {
        if self.is_enabled {
            return Ok(self.stores);
        }
        if !self.discards {
            return Err(WriteError::Disabled);
        }
        if !self.has_warned.swap(true, Ordering::Relaxed) {
            tracing::warn!("the outbox is disabled, and throws events away (`discard_when_disabled`)");
        }
        Ok(false)
    }
}
