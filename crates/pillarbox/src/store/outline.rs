//! Events without what they carry.

use super::Status;
use crate::Timestamp;

/// A row without payload, headers and context: what it costs little to read of many.
///
/// Texts are as well as they can be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outline {
    /// Its number.
    pub seq: i64,
    /// Its id.
    pub event_id: String,
    /// Its type.
    pub event_type: String,
    /// The id of its aggregate.
    pub aggregate_id: Option<String>,
    /// Its key.
    pub key: Option<String>,
    /// Where it stands; the number itself if it is none of the four.
    pub status: Result<Status, i64>,
    /// Failed deliveries.
    pub attempts: u32,
    /// When it was written.
    pub created_at: Timestamp,
    /// When it was delivered.
    pub done_at: Option<Timestamp>,
    /// Why the last delivery failed.
    pub last_error: Option<String>,
    /// Why it was set aside.
    pub reason: Option<String>,
}
