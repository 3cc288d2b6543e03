//! Since when sinks are down.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use pillarbox::{Health, SinkHealth, Timestamp};
use tokio_util::sync::CancellationToken;

use super::state::Relays;

/// How often is looked which sinks are down.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The sinks that are not well, and since when.
#[derive(Default)]
pub(crate) struct Outages(BTreeMap<String, Timestamp>);

impl Outages {
    /// Notes how sinks are doing now. One that is tried again is still in its outage.
    pub(crate) fn look(&mut self, sinks: &[SinkHealth]) {
        let down = sinks.iter().filter(|sink| sink.health != Health::Well);
        self.note(down.map(|sink| sink.name.as_str()), SystemTime::now().into());
    }

    fn note<'s>(&mut self, down: impl Iterator<Item = &'s str>, now: Timestamp) {
        let still = down.map(|name| (name.to_owned(), self.since(name).unwrap_or(now)));
        self.0 = still.collect();
    }

    pub(crate) fn since(&self, sink: &str) -> Option<Timestamp> {
        self.0.get(sink).copied()
    }
}

/// Keeps an eye on the sinks of a relay until it ends.
pub(crate) async fn follow(relays: Arc<Relays>, end: CancellationToken) {
    while end.run_until_cancelled(tokio::time::sleep(LOOK_EVERY)).await.is_some() {
        relays.look();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// K2: an outage begins when a sink is first seen down, and a later one anew.
    #[test]
    fn outages_begin_when_they_are_first_seen() {
        let (mut outages, at) = (Outages::default(), Timestamp::from_micros);

        outages.note(["kafka"].into_iter(), at(1));
        outages.note(["kafka", "hooks"].into_iter(), at(2));
        assert_eq!((outages.since("kafka"), outages.since("hooks")), (Some(at(1)), Some(at(2))));

        outages.note(["hooks"].into_iter(), at(3));
        outages.note(["kafka", "hooks"].into_iter(), at(4));
        assert_eq!((outages.since("kafka"), outages.since("hooks")), (Some(at(4)), Some(at(2))));
    }
}
