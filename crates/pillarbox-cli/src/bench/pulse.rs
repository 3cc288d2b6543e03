//! How a bench says that it is alive, whatever it is doing.
//!
//! While it delivers it is a member of its outbox. While it writes it is not: a member would have a share of the partitions,
//! and read nothing of it. So it has a sign in the outbox as well, a route that is paused, of which the database keeps
//! since when; no event of a bench goes by routes.

use std::time::Duration;

use pillarbox::Timestamp;
use pillarbox::store::{Administration, StoreError};
use pillarbox_any::AnyStore;
use tokio::task::JoinHandle;

/// The routes that are paused in turn, so that one of them always is.
const BEATS: [&str; 2] = ["bench-tick", "bench-tock"];
const BEAT_EVERY: Duration = Duration::from_secs(5);
/// Who was silent for so long is dead.
const ALIVE_FOR: Duration = Duration::from_secs(60);

/// The route by which the clock of the database is read.
const CLOCK: &str = "bench-clock";

/// Says that the bench is alive, now and again and again. A beat that fails is left to the next one.
pub(super) async fn begin(store: &AnyStore) -> Result<JoinHandle<()>, StoreError> {
    let [first, second] = BEATS;
    beat(store, first, second).await?;
    let store = store.clone();
    Ok(tokio::spawn(async move {
        let (mut next, mut last) = (second, first);
        loop {
            tokio::time::sleep(BEAT_EVERY).await;
            if beat(&store, next, last).await.is_ok() {
                (next, last) = (last, next);
            }
        }
    }))
}

async fn beat(store: &AnyStore, next: &str, last: &str) -> Result<(), StoreError> {
    renew(store, next).await?;
    store.resume_route(last).await.map(drop)
}

/// Pauses a route as of now.
async fn renew(store: &AnyStore, route: &str) -> Result<(), StoreError> {
    store.resume_route(route).await?;
    store.pause_route(route).await.map(drop)
}

/// Whether somebody has said so within a minute, or delivers.
pub(super) async fn is_felt(store: &AnyStore) -> Result<bool, StoreError> {
    if store.census().await?.alive().next().is_some() {
        return Ok(true);
    }
    renew(store, CLOCK).await?;
    let paused = store.paused_routes().await?;
    store.resume_route(CLOCK).await?;
    let since = |routes: &[&str]| -> Option<Timestamp> {
        let named = paused.iter().filter(|route| routes.contains(&route.name.as_str()));
        named.filter_map(|route| route.since).max()
    };
    Ok(is_recent(since(&BEATS), since(&[CLOCK])))
}

/// Whether the last beat is so recent that its bench may be alive. Where the time is not known, it may.
fn is_recent(beat: Option<Timestamp>, now: Option<Timestamp>) -> bool {
    match (beat, now) {
        (None, _) => false,
        (Some(_), None) => true,
        (Some(beat), Some(now)) => {
            let silent = u64::try_from(now.as_micros() - beat.as_micros()).unwrap_or_default();
            Duration::from_micros(silent) < ALIVE_FOR
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// M6: a bench counts as alive for a minute after it was last heard of, also if the clock went back since.
    #[test]
    fn benches_are_dead_after_a_minute_of_silence() {
        let at = |seconds: i64| Some(Timestamp::from_micros(seconds * 1_000_000));

        assert!(is_recent(at(1_000), at(1_000)) && is_recent(at(1_000), at(1_059)));
        assert!(is_recent(at(1_000), at(900)) && is_recent(at(1_000), None));
        assert!(!is_recent(at(1_000), at(1_060)) && !is_recent(None, at(1_000)));
    }
}
