//! Random histories, which every store must answer like the memory store.
//!
//! A property test draws numbers, [`history`] makes steps of them, [`play`] plays these on a store and notes all that
//! can be observed. What was noted on two stores must be the same. [`random_histories_agree`] is that test; a history
//! on which stores differ is told in as few steps as were found to do.
//!
//! Nothing observed depends on how fast a store is: events are available since long ago or not for a long time,
//! leases end at once or not for a long time, and between two steps the clock moves on.

use std::time::Duration;

use pillarbox::store::{
    Administration, Birth, DoneRows, InsertError, Lease, Outcome, Purge, Selection, Settlement, Take, TxStore,
};
use pillarbox::{Event, MemoryStore, Timestamp};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use tokio::runtime::Handle;

use super::{LONG, take, unused_token};

/// Histories that are compared, each of up to 40 steps.
const HISTORIES: u32 = 30;

/// What is drawn for one step.
pub type Drawn = [u8; 4];

/// One step of a history. Events and leases are named by their place among those that there were so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Writes events, and commits or rolls back.
    Write {
        /// How many.
        count: u8,
        /// Which of the first of them are available only much later.
        delayed: u8,
        /// The lease that they are born with, if any.
        lease: Option<Duration>,
        /// Whether the transaction commits.
        commits: bool,
    },
    /// Writes an event that exists already.
    WriteAgain(u8),
    /// Takes events.
    Take {
        /// How many at most.
        limit: u8,
        /// For how long.
        lease_for: Duration,
    },
    /// Settles a lease, or several with the same outcome in one call.
    Settle {
        /// The first of them.
        lease: u8,
        /// How many.
        count: u8,
        /// What became of them.
        outcome: Outcome,
        /// What happens to done rows.
        done: DoneRows,
    },
    /// Renews a lease.
    Renew {
        /// Which.
        lease: u8,
        /// For how long.
        lease_for: Duration,
    },
    /// Replays an event.
    Replay(u8),
    /// Discards an event.
    Discard(u8),
    /// Purges done events, and dead ones if asked.
    Purge(bool),
    /// Starts the taking instance again.
    Resume,
}

/// The steps that the drawn numbers stand for.
pub fn history(drawn: &[Drawn]) -> Vec<Step> {
    drawn.iter().map(|&drawn| step(drawn)).collect()
}

fn step([kind, a, b, c]: Drawn) -> Step {
    let time = |n: u8| if n.is_multiple_of(2) { LONG } else { Duration::ZERO };
    match kind % 16 {
        0..=3 => Step::Write {
            count: a % 4 + 1,
            delayed: if a >= 192 { b % 3 } else { 0 },
            lease: (c % 3 == 0).then(|| time(b)),
            commits: c < 224,
        },
        4 => Step::WriteAgain(a),
        5..=8 => Step::Take { limit: a % 5, lease_for: time(b) },
        9..=11 => Step::Settle {
            lease: a,
            count: b % 4 + 1,
            outcome: outcome(c),
            done: if b >= 192 { DoneRows::Delete } else { DoneRows::Keep },
        },
        12 => Step::Renew { lease: a, lease_for: time(b) },
        13 => Step::Replay(a),
        14 if b < 128 => Step::Discard(a),
        14 => Step::Purge(c.is_multiple_of(2)),
        _ => Step::Resume,
    }
}

fn outcome(drawn: u8) -> Outcome {
    let (spent, error) = (drawn >= 128, format!("error {drawn}"));
    match drawn % 7 {
        0 => Outcome::Done,
        1 if spent => Outcome::FellBack { error },
        1 => Outcome::Done,
        2 => Outcome::Retry { after: Duration::ZERO, error, spent },
        3 => Outcome::Retry { after: LONG, error, spent },
        4 => Outcome::Aside { until: Some(Duration::ZERO), reason: error },
        5 => Outcome::Dead { error, spent },
        _ => Outcome::Released,
    }
}

/// Plays random histories with `play_here`, which [plays](play) one on an empty store of its own, and on the memory
/// store; panics with the shortest history found on which they differ.
pub async fn random_histories_agree(play_here: impl AsyncFn(&[Step]) -> Vec<String> + Send + 'static) {
    let drawn = prop::collection::vec(any::<Drawn>(), 1..40);
    let config =
        Config { cases: HISTORIES, failure_persistence: None, max_shrink_iters: 200, ..Config::default() };
    let runtime = Handle::current();

    let compared = tokio::task::spawn_blocking(move || {
        TestRunner::new(config).run(&drawn, |drawn| runtime.block_on(compare(&play_here, &history(&drawn))))
    });

    compared.await.unwrap().unwrap_or_else(|differ| panic!("{differ}"));
}

async fn compare(
    play_here: &impl AsyncFn(&[Step]) -> Vec<String>,
    steps: &[Step],
) -> Result<(), TestCaseError> {
    let (here, memory) = (play_here(steps).await, play(&MemoryStore::new(), steps).await);

    for (here, memory) in here.iter().zip(&memory) {
        prop_assert_eq!(here, memory, "{:?}", steps);
    }
    prop_assert_eq!(here.len(), memory.len(), "{:?}", steps);
    Ok(())
}

/// Plays a history on an empty store, and notes what can be observed.
pub async fn play<S: TxStore + Administration>(store: &S, steps: &[Step]) -> Vec<String> {
    let mut play = Play { store, written: Vec::new(), leases: Vec::new(), incarnation: 1, notes: Vec::new() };
    for step in steps {
        play.step(step).await;
        play.look().await;
        // Two steps must not share a tick of the coarsest clock, which has milliseconds: what became available by
        // the first of them comes first.
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    play.notes
}

struct Play<'a, S> {
    store: &'a S,
    written: Vec<Event>,
    /// With the events' ids.
    leases: Vec<(String, Lease)>,
    incarnation: u64,
    notes: Vec<String>,
}

impl<S: TxStore + Administration> Play<'_, S> {
    async fn step(&mut self, step: &Step) {
        let note = match step {
            Step::Write { count, delayed, lease, commits } => {
                self.write(*count, *delayed, *lease, *commits).await
            }
            Step::WriteAgain(which) => self.write_again(*which).await,
            Step::Take { limit, lease_for } => self.take(usize::from(*limit), *lease_for).await,
            Step::Settle { lease, count, outcome, done } => self.settle(*lease, *count, outcome, *done).await,
            Step::Renew { lease, lease_for } => match pick(&self.leases, *lease).map(|(_, lease)| *lease) {
                Some(lease) => self.lost(self.store.renew(&[lease], *lease_for).await.unwrap()),
                None => String::new(),
            },
            Step::Replay(which) => {
                let replayed = self.store.replay(&self.selection(*which)).await.unwrap();
                format!("replayed {replayed}")
            }
            Step::Discard(which) => {
                let discarded = self.store.discard(&self.selection(*which)).await.unwrap();
                format!("discarded {discarded:?}")
            }
            Step::Purge(dead_too) => {
                let purge = Purge { older_than: Duration::ZERO, limit: 1_000, after: 0, dead_too: *dead_too };
                format!("purged {}", self.store.purge(purge).await.unwrap().deleted)
            }
            Step::Resume => {
                self.incarnation += 1;
                let resumed = self.store.resume(&self.owner()).await.unwrap();
                format!("resumed {resumed}")
            }
        };
        self.notes.push(format!("{step:?}: {note}"));
    }

    fn owner(&self) -> pillarbox::store::Owner {
        pillarbox::store::Owner::new("relay", self.incarnation)
    }

    fn selection(&self, which: u8) -> Selection {
        let picked = pick(&self.written, which);
        Selection::Ids(picked.map(|event| event.id().to_owned()).into_iter().collect())
    }

    /// An event that has been available since shortly after 1970, later than those before it, or never will be.
    fn event(&self, number: usize, is_delayed: bool) -> Event {
        let number = self.written.len() + number;
        let event = Event::builder("OrderPlaced").id(format!("order-{number}")).json_text("{}");
        let event = match is_delayed {
            true => event.deliver_after(LONG),
            // Two at a time become available together, and a later pair earlier than the one before.
            false => event.available_at(Timestamp::from_micros(1_000 - (number as i64 / 2) % 5)),
        };
        event.build().unwrap()
    }

    async fn write(&mut self, count: u8, delayed: u8, lease: Option<Duration>, commits: bool) -> String {
        let mut events: Vec<Event> = (0..count).map(|n| self.event(usize::from(n), n < delayed)).collect();
        let birth = lease.map(|lease_for| Birth { owner: self.owner(), token: unused_token(), lease_for });
        if birth.is_some() {
            // Only events without a time of their own are leased at birth.
            let plain =
                |event: &Event| Event::builder("OrderPlaced").id(event.id()).json_text("{}").build().unwrap();
            events = events.iter().map(plain).collect();
        }
        let mut tx = self.store.begin().await.unwrap();
        self.store.insert(S::connection_mut(&mut tx), &events, birth.as_ref()).await.unwrap();
        if commits {
            S::commit(tx).await.unwrap();
        } else {
            S::rollback(tx).await.unwrap();
        }
        let ids: Vec<String> = events.iter().map(|event| event.id().to_owned()).collect();
        let token = birth.map_or_else(unused_token, |birth| birth.token);
        let mut found = self.store.read_back(token, &ids).await.unwrap();
        found.sort_by_key(|found| found.seq);
        for found in &found {
            let token = token.of_event(&found.event_id);
            let lease = Lease { seq: found.seq, token, attempts: 0, starts: 0 };
            self.leases.push((found.event_id.clone(), lease));
        }
        if commits {
            self.written.extend(events);
        }
        format!("found {:?}", found.iter().map(|found| &found.event_id).collect::<Vec<_>>())
    }

    async fn write_again(&mut self, which: u8) -> String {
        let Some(event) = pick(&self.written, which).cloned() else { return String::new() };
        let mut tx = self.store.begin().await.unwrap();
        let again = self.store.insert(S::connection_mut(&mut tx), &[event], None).await;
        let note = match again {
            Ok(()) => "inserted".to_owned(),
            Err(InsertError::DuplicateId { id }) => format!("{id} is there"),
            Err(other) => panic!("{other:?}"),
        };
        S::rollback(tx).await.unwrap();
        note
    }

    async fn take(&mut self, limit: usize, lease_for: Duration) -> String {
        let take = Take { owner: self.owner(), lease_for, ..take(limit) };
        let batch = self.store.take(take).await.unwrap();
        self.leases.extend(batch.events.iter().map(|taken| (taken.event_id.clone(), taken.lease)));
        let taken: Vec<_> = batch
            .events
            .iter()
            .map(|taken| (&taken.event_id, taken.lease.attempts, taken.lease.starts))
            .collect();
        format!("{taken:?}")
    }

    async fn settle(&mut self, first: u8, count: u8, outcome: &Outcome, done: DoneRows) -> String {
        let places = (0..count).map(|n| first.wrapping_add(n));
        let mut settlements: Vec<Settlement> = Vec::new();
        for (event_id, lease) in places.filter_map(|place| pick(&self.leases, place)) {
            // Which of two leases of one event comes first in a call is nobody's promise.
            if settlements.iter().all(|other| other.lease.seq != lease.seq) {
                let (event_id, outcome) = (event_id.clone(), outcome.clone());
                settlements.push(Settlement::new(event_id, *lease, outcome));
            }
        }
        let lost = self.store.settle(&settlements, done).await.unwrap();
        self.lost(lost)
    }

    /// Lost leases by their place, because numbers differ from store to store.
    fn lost(&self, mut lost: Vec<i64>) -> String {
        lost.sort_unstable();
        let place = |seq: &i64| self.leases.iter().position(|(_, lease)| lease.seq == *seq);
        format!("lost {:?}", lost.iter().map(place).collect::<Vec<_>>())
    }

    /// Notes the rows, as an operator sees them.
    async fn look(&mut self) {
        let stats = self.store.stats().await.unwrap();
        self.notes.push(format!("{} new, {} retry, {} dead", stats.new, stats.retry, stats.dead));
        for event in &self.written {
            let row = self.store.find(event.id()).await.unwrap();
            let seen = row.map(|row| {
                let is_due = row.available_at == row.due_at;
                let done = row.done_at.is_some();
                (
                    row.status,
                    row.attempts,
                    row.starts,
                    row.locked_by,
                    row.last_error,
                    row.reason,
                    is_due,
                    done,
                )
            });
            self.notes.push(format!("{} {seen:?}", event.id()));
        }
    }
}

/// One of those that there are, if any.
fn pick<T>(among: &[T], place: u8) -> Option<&T> {
    among.get(usize::from(place).checked_rem(among.len())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A history notes the same every time, on stores that are alike.
    #[tokio::test]
    async fn a_history_repeats() {
        let drawn: Vec<Drawn> =
            (0..=255).map(|n: u8| [n, n.wrapping_mul(31), n.wrapping_mul(7), n.wrapping_mul(57)]).collect();
        let steps = history(&drawn[..60]);

        let (once, again) =
            (play(&MemoryStore::new(), &steps).await, play(&MemoryStore::new(), &steps).await);

        assert_eq!(once, again);
        assert!(
            once.iter().any(|note| note.contains("Dead"))
                && once.iter().any(|note| note.contains("lost [Some"))
        );
    }

    /// A store that answers otherwise now and then is found out, by the shortest history that shows it.
    #[tokio::test(flavor = "multi_thread")]
    #[should_panic(expected = "[Resume]")]
    async fn a_store_that_differs_is_found_out() {
        random_histories_agree(async |steps: &[Step]| {
            let is_played = |step: &&Step| **step != Step::Resume;
            let played: Vec<Step> = steps.iter().filter(is_played).cloned().collect();
            play(&MemoryStore::new(), &played).await
        })
        .await;
    }
}
