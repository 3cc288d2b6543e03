//! Routes that operators have paused.

use super::{Administration, StoreError};
use crate::Timestamp;

/// How many events are recalled at once, so that nobody waits for long.
const AT_ONCE: usize = 1_000;

/// A route that is paused, as the database has it: for all relays, until somebody resumes it.
///
/// [`Routing::set_paused`](crate::Routing::set_paused) has an outbox keep to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PausedRoute {
    /// Its name.
    pub name: String,
    /// Since when, by the database's clock; none if somebody wrote it by hand.
    pub since: Option<Timestamp>,
}

impl PausedRoute {
    /// A route of which a store has kept since when it is paused, in microseconds since 1970. For stores.
    pub fn stored(name: String, since: &str) -> Self {
        Self { name, since: since.parse().ok().map(Timestamp::from_micros) }
    }

    /// Lets events be taken at once that were set aside because this route was paused, and returns how many; without it
    /// they are looked at once a minute.
    ///
    /// Call it when the outbox knows that the route is resumed, or it sets them aside again, and have the outbox
    /// [poll](crate::Outbox::poll) then. It goes on in steps until there are none, and may be repeated.
    pub async fn recall(store: &impl Administration, route: &str) -> Result<u64, StoreError> {
        let reason = paused(route);
        let mut recalled = 0;
        loop {
            match store.recall(&reason, AT_ONCE).await? {
                0 => return Ok(recalled),
                step => recalled += step,
            }
        }
    }
}

/// Why an event is set aside whose route is paused.
pub(crate) fn paused(route: &str) -> String {
    format!("paused: route `{route}`")
}
