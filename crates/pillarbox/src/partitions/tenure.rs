//! What this instance holds, and for how long at least.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::runtime::Runtime;
use crate::store::{Epoch, Floor, Token};

/// The partitions of this instance, for those who write, deliver and beat.
pub(crate) struct Tenure {
    runtime: Runtime,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// When the leases end at the earliest, by the local clock.
    until: Duration,
    /// The partitions that are this instance's own.
    held: BTreeMap<u8, Epoch>,
    /// How far each partition that is read has come.
    floors: BTreeMap<u8, Floor>,
    /// The partition that was last given to an event without a key.
    last: u8,
}

impl Tenure {
    pub(crate) fn new(runtime: Runtime) -> Self {
        Self { runtime, state: Mutex::default() }
    }

    /// A partition is this instance's own.
    pub(crate) fn hold(&self, partition: u8, epoch: Epoch) {
        self.lock().held.insert(partition, epoch);
    }

    /// A partition is another's, or anybody's. It counts at once, whenever the reader will hear of it.
    pub(crate) fn let_go(&self, partition: u8) {
        self.lock().held.remove(&partition);
    }

    /// The leases of all that is held last until `until` at least.
    pub(crate) fn renew(&self, until: Duration) {
        self.lock().until = until;
    }

    /// How long the leases last at least.
    pub(crate) fn left(&self) -> Duration {
        self.lock().until.saturating_sub(self.runtime.clock.now())
    }

    /// Completes when the leases may have ended: nobody has renewed them in time.
    pub(crate) async fn ended(&self) {
        loop {
            let left = self.left();
            if left.is_zero() {
                return;
            }
            self.runtime.clock.sleep(left).await;
        }
    }

    /// Notes how far a partition has come.
    pub(crate) fn note(&self, floor: Floor) {
        self.lock().floors.insert(floor.partition, floor);
    }

    /// Forgets a partition.
    pub(crate) fn forget(&self, partition: u8) {
        self.lock().floors.remove(&partition);
    }

    /// How far all partitions have come.
    pub(crate) fn floors(&self) -> Vec<Floor> {
        self.lock().floors.values().copied().collect()
    }

    /// Whether what carries this token may be delivered: its partition is held and read here, under the same epoch.
    pub(crate) fn covers(&self, token: Token) -> bool {
        token.partition().is_none_or(|(partition, epoch)| {
            let state = self.lock();
            let is_read = state.floors.get(&partition).is_some_and(|floor| floor.epoch == epoch);
            is_read && state.held.get(&partition) == Some(&epoch)
        })
    }

    /// Whether a partition is read here.
    pub(crate) fn holds(&self, partition: u8) -> bool {
        self.lock().floors.contains_key(&partition)
    }

    /// A partition that is read here, each in its turn; none if there is none.
    pub(crate) fn next_partition(&self) -> Option<u8> {
        let mut state = self.lock();
        let after = state.last.checked_add(1).and_then(|next| state.floors.range(next..).next());
        let (&next, _) = after.or_else(|| state.floors.first_key_value())?;
        state.last = next;
        Some(next)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// O3: events without a key are spread over what the writer owns, and over nothing if it owns nothing.
    #[tokio::test]
    async fn partitions_are_given_in_turn() {
        let tenure = Tenure::new(Runtime::tokio());
        assert_eq!(tenure.next_partition(), None);

        for partition in [7, 255, 30] {
            tenure.note(Floor { partition, epoch: Epoch(1), floor: 0 });
        }

        let given: Vec<_> = (0..4).filter_map(|_| tenure.next_partition()).collect();
        assert_eq!(given, [7, 30, 255, 7]);
    }

    /// O5: what was queued before its partition was lost is not delivered after it was regained.
    #[tokio::test]
    async fn tenure_covers_the_epoch_that_is_held() {
        let tenure = Tenure::new(Runtime::tokio());
        let (before, now) = (Token::of_partition(7, Epoch(4)), Token::of_partition(7, Epoch(6)));
        tenure.hold(7, Epoch(6));
        tenure.note(Floor { partition: 7, epoch: Epoch(6), floor: 0 });

        assert!(tenure.covers(now));
        assert!(!tenure.covers(before));
        assert!(!tenure.covers(Token::of_partition(8, Epoch(6))));

        tenure.forget(7);
        assert!(!tenure.covers(now));
    }

    /// O5: what is lost is not delivered any more, though the reader goes on with it until it hears of that.
    #[tokio::test]
    async fn loss_counts_before_the_reader_hears_of_it() {
        let tenure = Tenure::new(Runtime::tokio());
        let token = Token::of_partition(7, Epoch(6));
        let floor = Floor { partition: 7, epoch: Epoch(6), floor: 0 };
        tenure.hold(7, Epoch(6));
        tenure.note(floor);

        tenure.let_go(7);
        tenure.note(floor);

        assert!(!tenure.covers(token));
    }
}
