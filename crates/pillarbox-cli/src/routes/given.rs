//! An event as a user writes it down.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;

use anyhow::Context;
use pillarbox::Event;
use serde::Deserialize;
use serde_json::Value;

use crate::exit::Unusable;

/// An event in a JSON file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Given {
    event_type: String,
    event_id: Option<String>,
    aggregate_type: Option<String>,
    aggregate_id: Option<String>,
    key: Option<String>,
    tenant_id: Option<String>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    #[serde(default)]
    payload: Value,
}

impl Given {
    /// Reads it from a file, or from standard input if that is `-`.
    pub(super) fn read(file: &Path) -> anyhow::Result<Self> {
        let mut text = String::new();
        let name = file.display().to_string();
        match name.as_str() {
            "-" => std::io::stdin().read_to_string(&mut text).context("standard input cannot be read")?,
            _ => {
                text = std::fs::read_to_string(file)
                    .map_err(|error| Unusable(format!("`{name}` cannot be read: {error}")))?;
                text.len()
            }
        };
        Ok(serde_json::from_str(&text).map_err(|error| Unusable(format!("`{name}` is no event: {error}")))?)
    }

    pub(super) fn event(self) -> anyhow::Result<Event> {
        let mut event = Event::builder(self.event_type.as_str()).json_text(self.payload.to_string());
        if let Some(id) = self.event_id {
            event = event.id(id);
        }
        if let Some(aggregate_type) = self.aggregate_type {
            event = event.aggregate_type(aggregate_type.as_str());
        }
        if let Some(aggregate_id) = self.aggregate_id {
            event = event.aggregate_id(aggregate_id);
        }
        if let Some(key) = self.key {
            event = event.key(key);
        }
        if let Some(tenant) = self.tenant_id {
            event = event.tenant(tenant);
        }
        for (name, value) in self.headers {
            event = event.header(name, value);
        }
        Ok(event.build().map_err(|error| Unusable(error.to_string()))?)
    }
}
