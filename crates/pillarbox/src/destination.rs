//! Where sinks lead: how each is doing, which events it left unanswered, and which sinks an event goes to.

mod breaker;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

pub use breaker::Health;
pub(crate) use breaker::{Admission, Breaker, Pauses};

use crate::{Sink, Template};

/// A sink, and how it has been doing.
pub(crate) struct Destination {
    pub(crate) sink: Box<dyn Sink>,
    pub(crate) breaker: Breaker,
    /// Whether a route leads here: only then does it count what it would let through.
    is_routed: AtomicBool,
    /// Events that it left unanswered, or was down for when they were alone: they are sent alone.
    doubts: Mutex<BTreeMap<i64, Doubt>>,
    /// How many events it has acknowledged.
    acknowledged: AtomicU64,
    /// What it said when it was last found to be down.
    last_error: Mutex<Option<String>>,
}

/// What is known of an event that was left unanswered, or for which alone a destination was down.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Doubt {
    /// How often it was so when it was sent alone.
    pub(crate) alone: u32,
    /// How often of these, others were acknowledged since the time before: so it is the event, and not the destination.
    pub(crate) alone_while_others_passed: u32,
    acknowledged: u64,
}

impl Doubt {
    /// So often it may end alone and unanswered, while others pass, before that counts as a rejection.
    pub(crate) const MOST: u32 = 20;

    /// Whether it is the event that is to blame.
    pub(crate) fn is_of_the_event(self) -> bool {
        self.alone_while_others_passed > 0
    }
}

impl Destination {
    /// The most events that are remembered as doubtful.
    const MOST_DOUBTFUL: usize = 10_000;

    pub(crate) fn new(sink: Box<dyn Sink>) -> Self {
        Self {
            sink,
            breaker: Breaker::default(),
            is_routed: AtomicBool::new(true),
            doubts: Mutex::default(),
            acknowledged: AtomicU64::new(0),
            last_error: Mutex::default(),
        }
    }

    /// Whether this event was left unanswered the last time.
    pub(crate) fn is_doubtful(&self, seq: i64) -> bool {
        self.lock().contains_key(&seq)
    }

    /// Whether routes lead here from now on.
    pub(crate) fn set_routed(&self, is_routed: bool) {
        self.is_routed.store(is_routed, Ordering::Relaxed);
    }

    /// This event was left unanswered, alone in its run or in company. Of too many, the oldest is forgotten: its answer may
    /// have come to another instance.
    pub(crate) fn doubt(&self, seq: i64, was_alone: bool) -> Doubt {
        let acknowledged = self.so_far();
        let mut doubts = self.lock();
        if doubts.len() >= Self::MOST_DOUBTFUL && !doubts.contains_key(&seq) {
            doubts.pop_first();
        }
        let doubt = doubts.entry(seq).or_insert(Doubt { acknowledged, ..Doubt::default() });
        if was_alone {
            doubt.alone = doubt.alone.saturating_add(1);
            doubt.alone_while_others_passed += u32::from(acknowledged > doubt.acknowledged);
        }
        doubt.acknowledged = acknowledged;
        *doubt
    }

    /// This event was answered.
    pub(crate) fn trust(&self, seq: i64) {
        self.lock().remove(&seq);
    }

    /// An event was acknowledged; true if the destination is well again by that.
    pub(crate) fn acknowledged(&self, now: Duration) -> bool {
        self.acknowledged.fetch_add(1, Ordering::Relaxed);
        self.breaker.acknowledged(now)
    }

    /// How many events it has acknowledged so far.
    pub(crate) fn so_far(&self) -> u64 {
        self.acknowledged.load(Ordering::Relaxed)
    }

    pub(crate) fn last_error(&self) -> Option<String> {
        self.last_error.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn note_error(&self, error: String) {
        *self.last_error.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<i64, Doubt>> {
        self.doubts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The sinks that an event goes to.
pub(crate) struct SinkSet {
    pub(crate) legs: Vec<Leg>,
    /// Whether it is stored which of them have an event: then one that is down never repeats another.
    pub(crate) is_tracked: bool,
}

/// One of the sinks that an event goes to.
#[derive(Clone)]
pub(crate) struct Leg {
    /// The name of the sink.
    pub(crate) id: Arc<str>,
    pub(crate) destination: Arc<Destination>,
    /// Where in the destination it goes, if not to the sink's own address.
    pub(crate) address: Option<Arc<Template>>,
}

impl SinkSet {
    /// One sink that has no name.
    pub(crate) fn of(sink: Box<dyn Sink>) -> Self {
        let leg = Leg { id: "sink".into(), destination: Arc::new(Destination::new(sink)), address: None };
        Self { legs: vec![leg], is_tracked: false }
    }

    pub(crate) fn ids(&self) -> impl Iterator<Item = &str> + Clone {
        self.legs.iter().map(|leg| &*leg.id)
    }

    /// Whether one of the sinks left this event unanswered the last time.
    pub(crate) fn is_doubtful(&self, seq: i64) -> bool {
        self.legs.iter().any(|leg| leg.destination.is_doubtful(seq))
    }
}

/// All destinations of an outbox that has no other receivers.
#[derive(Clone, Default)]
pub(crate) struct Destinations(pub(crate) Vec<Arc<Destination>>);

impl Destinations {
    /// How many events are worth taking, and how long until any is: while all destinations are down that routes lead to,
    /// what is taken could only be given back.
    pub(crate) fn room(&self, now: Duration) -> Admission {
        let routed = self.0.iter().filter(|destination| destination.is_routed.load(Ordering::Relaxed));
        let rooms = routed.map(|destination| destination.breaker.room(now));
        let sum = |sum: Admission, room: Admission| Admission {
            events: sum.events.saturating_add(room.events),
            wait: sum.wait.min(room.wait),
        };
        rooms.reduce(sum).unwrap_or(Admission::ALL)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MemorySink;

    fn destination() -> Destination {
        Destination::new(Box::new(MemorySink::new()))
    }

    /// T5: an event that ends alone and unanswered while others pass is to blame itself.
    #[test]
    fn blame_falls_on_the_event_when_others_pass() {
        let destination = destination();
        assert!(!destination.doubt(17, false).is_of_the_event(), "it was in company");
        assert!(!destination.doubt(17, true).is_of_the_event(), "nobody has passed since");

        destination.acknowledged(Duration::ZERO);

        let doubt = destination.doubt(17, true);
        assert_eq!((doubt.alone, doubt.alone_while_others_passed), (2, 1));
        assert_eq!(destination.doubt(17, true).alone_while_others_passed, 1, "nobody has passed since then");
    }

    /// T5: of more doubts than are remembered the oldest goes, and the newest are not without.
    #[test]
    fn oldest_doubt_gives_way() {
        let destination = destination();
        let most = i64::try_from(Destination::MOST_DOUBTFUL).unwrap();

        for seq in 0..=most {
            destination.doubt(seq, true);
        }

        assert!(!destination.is_doubtful(0));
        assert!(destination.is_doubtful(1) && destination.is_doubtful(most));
    }

    /// T5: an answer ends all doubt.
    #[test]
    fn answered_event_is_trusted() {
        let destination = destination();
        destination.doubt(17, true);
        assert!(destination.is_doubtful(17));

        destination.trust(17);

        assert!(!destination.is_doubtful(17));
    }

    /// T5: nothing is taken while all destinations are down, and something as soon as one is not.
    #[test]
    fn room_is_that_of_all_destinations() {
        let both = Destinations(vec![Arc::new(destination()), Arc::new(destination())]);
        let pauses = Pauses { first: Duration::from_secs(4), longest: Duration::from_secs(60) };
        let trip = |at: usize, asked: u64| {
            both.0[at].breaker.tripped(Duration::ZERO, pauses, Duration::from_secs(asked), 0.5);
        };
        assert_eq!(Destinations::default().room(Duration::ZERO).events, usize::MAX);
        trip(0, 9);
        assert_eq!(both.room(Duration::ZERO).events, usize::MAX);

        trip(1, 5);

        assert_eq!(both.room(Duration::ZERO), Admission { events: 0, wait: Duration::from_secs(5) });
        assert_eq!(both.room(Duration::from_secs(5)).events, 1);
        assert_eq!(both.room(Duration::from_secs(9)).events, 2);
    }
}
