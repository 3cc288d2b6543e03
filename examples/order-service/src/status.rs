//! What becomes of an event, in the words of this service.

use pillarbox::store::{Status, StoredEvent};
use serde::Serialize;

/// An event as the API shows it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct EventView {
    event_id: String,
    status: &'static str,
    /// Deliveries that failed.
    attempts: u32,
    created_at: String,
    sent_at: Option<String>,
    error_message: Option<String>,
}

impl From<StoredEvent> for EventView {
    fn from(row: StoredEvent) -> Self {
        Self {
            status: row.status.map_or("UNKNOWN", word),
            attempts: row.attempts,
            created_at: row.created_at.to_string(),
            sent_at: row.done_at.map(|at| at.to_string()),
            error_message: row.last_error,
            event_id: row.event_id,
        }
    }
}

/// An event that is to be tried again is as NEW as one that was never tried: neither is sent yet.
pub(crate) const fn word(status: Status) -> &'static str {
    match status {
        Status::New | Status::Retry => "NEW",
        Status::Done => "SENT",
        Status::Dead => "FAILED",
    }
}
