//! Asking the database, and what becomes of its answers.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::super::{Answer, Message};
use super::wanted::Kind;
use super::{PAUSE, Reader};
use crate::destination::Admission;
use crate::dispatcher::CatchPanic;
use crate::lanes::{Read, Step};
use crate::metrics::add;
use crate::partition_of;
use crate::runtime::BoxFuture;
use crate::store::{Blocked, Due, Fetched, Holding, Numbers, Ownership, StoreError};

/// How long ago the numbers may have been told when a read of fresh events begins: the older it is, the more of
/// what is done lies between the floor and what is pending.
const KNOWN_FOR: Duration = Duration::from_millis(100);
/// Looking below the floors takes one part of so many of the time, and is not done more often than this.
const SWEEP_SHARE: u32 = 100;
const SWEEP_EVERY: Duration = Duration::from_secs(10);
/// How many events below its floor are brought of a partition at once.
const SWEEP_LIMIT: usize = 16;

/// How often a backlog that is read on is read from its floor: for so long an event may wait that was committed late.
const LOOK_BACK_EVERY: Duration = Duration::from_secs(1);

/// What is known of numbers.
#[derive(Default)]
pub(super) struct Known {
    pub(super) numbers: Numbers,
    told_at: Option<Duration>,
    looked_back_at: Duration,
}

impl Known {
    /// Has it asked for anew.
    pub(super) fn forget(&mut self) {
        self.told_at = None;
    }
}

impl Reader {
    /// Begins all reads that are wanted and possible now.
    pub(super) fn begin_reads(&mut self) {
        let now = self.parts.runtime.clock.now();
        self.wanted.note(self.parts.hints.take(), &self.owned);
        let admitted = self.parts.dispatcher.admitted().events;
        if now < self.wanted.trouble_until || !self.may_read() || admitted == 0 {
            return;
        }
        self.lanes.admit(admitted);
        while let Some(read) = self.lanes.key() {
            self.ask("aside of a key", move |store| {
                Box::pin(async move {
                    let key = read.key().unwrap_or_default().to_owned();
                    let came = match read.visits().first() {
                        Some(visit) => safely(store.aside_of(visit, &key, read.limit())).await,
                        None => Ok(Vec::new()),
                    };
                    Answer::Key(read, came)
                })
            });
        }
        if !self.wanted.is_reading {
            self.polls.read_begins();
            self.wanted.is_reading = self.begin_large_read(now);
        }
    }

    /// Begins the read of many partitions whose turn it is; false if none is to be done.
    fn begin_large_read(&mut self, now: Duration) -> bool {
        if self.wanted.all_at <= now {
            self.wanted.all_at = now + self.parts.config.poll_every;
            self.wanted.due_at = now;
            self.wanted.look_at_the_rest(&self.owned);
        }
        self.wanted.turns.into_iter().any(|kind| match kind {
            Kind::Blocked => self.begin_blocked(),
            Kind::Due => self.begin_due(now),
            Kind::Parked => self.begin_parked(now),
            Kind::Below => self.begin_sweep(now),
            Kind::Behind => self.begin_look(now),
            Kind::Fresh => self.begin_fresh(now),
        })
    }

    /// Which keys are blocked in partitions that are new here.
    fn begin_blocked(&mut self) -> bool {
        let is_free = |holding: &&Holding| !self.left_behind.contains_key(&holding.partition);
        let holdings: Vec<Holding> = self.beginning.values().filter(is_free).copied().collect();
        if holdings.is_empty() {
            return false;
        }
        self.ask("blocked", move |store| {
            Box::pin(async move {
                let partitions: Vec<u8> = holdings.iter().map(|holding| holding.partition).collect();
                let came = safely(store.blocked(&partitions)).await;
                Answer::Blocked(holdings, came)
            })
        });
        true
    }

    fn begin_due(&mut self, now: Duration) -> bool {
        if self.wanted.due_at > now {
            return false;
        }
        let owned = self.all_owned();
        let Some(read) = self.lanes.due(&owned) else {
            self.wanted.due_at = now + PAUSE;
            if self.lanes.room() == 0 {
                self.polls.looked_for_due(&owned);
            }
            return false;
        };
        // Those of which a key is just being read are left out, and have their turn soon.
        let is_visited = |partition: &u8| read.visits().iter().any(|visit| visit.partition == *partition);
        let is_drained =
            |partition: &u8| self.leaving.contains_key(partition) || self.anew.contains_key(partition);
        let is_whole = owned.iter().all(|partition| is_visited(partition) || is_drained(partition));
        self.wanted.due_at = now + if is_whole { self.parts.config.poll_every } else { PAUSE };
        self.ask("due", move |store| {
            Box::pin(async move {
                let came = safely(store.due(read.visits(), read.limit())).await;
                Answer::Due(read, came)
            })
        });
        true
    }

    fn begin_parked(&mut self, now: Duration) -> bool {
        if self.wanted.parked_at > now {
            return false;
        }
        self.wanted.parked_at = now + self.parts.config.poll_every;
        let Some(read) = self.lanes.parked(&self.all_owned()) else { return false };
        self.ask("parked", move |store| {
            Box::pin(async move {
                let partitions: Vec<u8> = read.visits().iter().map(|visit| visit.partition).collect();
                let came = safely(store.blocked(&partitions)).await;
                Answer::Parked(read, came)
            })
        });
        true
    }

    fn begin_sweep(&mut self, now: Duration) -> bool {
        if self.wanted.sweep_at > now {
            return false;
        }
        self.wanted.sweep_at = now + SWEEP_EVERY;
        // There may be room for some of them only.
        let owned = self.all_owned();
        let next = owned.partition_point(|partition| *partition <= self.wanted.swept_to);
        let in_turn: Vec<u8> = owned[next..].iter().chain(&owned[..next]).copied().collect();
        let Some(read) = self.lanes.below(&in_turn) else { return false };
        self.wanted.swept_to = read.visits().last().map_or(u8::MAX, |visit| visit.partition);
        let clock = self.parts.runtime.clock.clone();
        self.ask("below", move |store| {
            Box::pin(async move {
                let came = safely(store.below(read.visits(), read.limit().min(SWEEP_LIMIT))).await;
                Answer::Below(read, clock.now().saturating_sub(now), came)
            })
        });
        true
    }

    fn all_owned(&self) -> Vec<u8> {
        self.owned.iter().copied().collect()
    }

    /// The numbers, if they are old.
    pub(super) fn begin_numbers(&self, now: Duration) -> bool {
        let are_old = self.known.told_at.is_none_or(|told_at| now.saturating_sub(told_at) >= KNOWN_FOR);
        if are_old {
            self.ask("numbers", |store| {
                Box::pin(async move { Answer::Numbers(safely(store.numbers()).await) })
            });
        }
        are_old
    }

    /// Fresh events, after the numbers if these are old.
    fn begin_fresh(&mut self, now: Duration) -> bool {
        let room = self.lanes.room();
        if !self.wanted.has_fresh() || !self.is_worthwhile(room) {
            return false;
        }
        if self.begin_numbers(now) {
            return true;
        }
        if now.saturating_sub(self.known.looked_back_at) >= LOOK_BACK_EVERY {
            self.known.looked_back_at = now;
            self.lanes.look_back();
        }
        let partitions = self.wanted.visits(room, |partition| self.lanes.can_be_read(partition));
        let Some(read) = self.lanes.fresh(&partitions, self.known.numbers) else { return false };
        let visited: Vec<u8> = read.visits().iter().map(|visit| visit.partition).collect();
        self.wanted.begun(&visited);
        add(&self.parts.meter.takes, 1);
        self.ask("fetch", move |store| {
            Box::pin(async move {
                let came = safely(store.fetch(read.visits(), read.limit())).await;
                Answer::Fresh(read, came)
            })
        });
        true
    }

    /// Whether it is worth a statement to read so many events. A destination that is being tried gets the few that it can
    /// have.
    fn is_worthwhile(&self, events: usize) -> bool {
        let is_tried = self.parts.dispatcher.admitted() != Admission::ALL;
        events >= if is_tried { 1 } else { self.parts.config.worthwhile_room() }
    }

    /// Lets the database be asked in a task of its own, whose answer comes as a message.
    pub(super) fn ask<F>(&self, name: &'static str, question: F)
    where
        F: FnOnce(Arc<dyn Ownership>) -> BoxFuture<'static, Answer> + Send + 'static,
    {
        let (store, mailbox) = (self.parts.store.clone(), self.mailbox.clone());
        let step = async move { mailbox.tell(Message::Came(question(store).await)) };
        self.parts.runtime.spawner.spawn(name, Box::pin(step));
    }

    /// Takes in what the database has answered.
    pub(super) async fn came(&mut self, answer: Answer) {
        if !matches!(answer, Answer::Key(..) | Answer::Started(..)) {
            self.wanted.is_reading = false;
        }
        if let Some(kind) = kind_of(&answer) {
            self.wanted.had_turn(kind);
        }
        let steps = match answer {
            Answer::Numbers(came) => {
                match came {
                    Ok(numbers) => {
                        self.known.numbers = numbers;
                        self.known.told_at = Some(self.parts.runtime.clock.now());
                    }
                    Err(error) => {
                        self.known.forget();
                        self.in_trouble(&error);
                    }
                }
                Vec::new()
            }
            Answer::Blocked(holdings, came) => self.known(&holdings, came),
            Answer::Fresh(read, came) => self.fresh_came(read, came),
            Answer::Behind(read, came) => self.behind_came(read, came),
            Answer::Below(read, took, came) => self.below_came(read, took, came),
            Answer::Due(read, came) => self.due_came(read, came),
            Answer::Key(read, came) => self.answered(read, came),
            Answer::Parked(read, came) => match came {
                Ok(blocked) => self.lanes.answer_blocked(read, &blocked),
                Err(error) => self.failed(read, &error),
            },
            Answer::Started(taken, counted) => return self.started(*taken, counted).await,
        };
        self.follow(steps).await;
    }

    /// What is blocked in new partitions is known: they are read from now on.
    fn known(&mut self, holdings: &[Holding], came: Result<Vec<Blocked>, StoreError>) -> Vec<Step> {
        let blocked = match came {
            Ok(blocked) => blocked,
            Err(error) => {
                self.in_trouble(&error);
                return Vec::new();
            }
        };
        for holding in holdings {
            let partition = holding.partition;
            if self.beginning.get(&partition) != Some(holding) {
                continue;
            }
            self.beginning.remove(&partition);
            self.lanes.take_over(holding, &blocked);
            self.owned.insert(partition);
            self.wanted.hinted.insert(partition);
            self.note_floor(partition);
        }
        self.wanted.due_at = self.parts.runtime.clock.now();
        Vec::new()
    }

    fn fresh_came(&mut self, read: Read, came: Result<Vec<Fetched>, StoreError>) -> Vec<Step> {
        let partitions: Vec<u8> = read.visits().iter().map(|visit| visit.partition).collect();
        if let Ok(events) = &came {
            let mut brought: BTreeMap<u8, usize> = BTreeMap::new();
            for fetched in events {
                if let Some((partition, _)) = fetched.taken.lease.token.partition() {
                    *brought.entry(partition).or_default() += 1;
                }
            }
            self.polls.visited(&partitions);
            // Those that were lost meanwhile are nobody's business here.
            for partition in partitions.iter().filter(|partition| self.owned.contains(partition)) {
                let is_full = brought.get(partition).is_some_and(|count| *count >= read.limit());
                self.wanted.visited(*partition, is_full);
            }
            self.parts.settler.note_take(!self.wanted.backlog.is_empty());
            let lag = events.iter().map(|fetched| fetched.taken.due_for).max().unwrap_or_default();
            self.parts.meter.exporter().record_oldest_lag(Some(lag));
        } else {
            self.wanted.note(partitions.iter().copied().collect(), &self.owned);
        }
        let steps = self.answered(read, came);
        let now = self.parts.runtime.clock.now();
        for partition in partitions {
            let look_at = now + self.parts.config.poll_every;
            self.wanted.note_crowd(partition, self.lanes.is_crowded(partition), look_at);
            if self.lanes.reads_on(partition) {
                self.wanted.backlog.insert(partition);
            }
            self.note_floor(partition);
        }
        steps
    }

    /// What lies below its floor should not be there.
    fn below_came(
        &mut self,
        read: Read,
        took: Duration,
        came: Result<Vec<Fetched>, StoreError>,
    ) -> Vec<Step> {
        let now = self.parts.runtime.clock.now();
        self.wanted.sweep_at = now + SWEEP_EVERY.max(took.saturating_mul(SWEEP_SHARE));
        if let Ok(events) = &came {
            for fetched in events {
                self.parts.meter.meet_below_floor();
                tracing::error!(
                    event_id = fetched.taken.event_id,
                    "this event became visible below the floor of its partition; it is delivered late"
                );
            }
        }
        self.answered(read, came)
    }

    fn due_came(&mut self, read: Read, came: Result<Due, StoreError>) -> Vec<Step> {
        let now = self.parts.runtime.clock.now();
        match came {
            Ok(due) => {
                let partitions: Vec<u8> = read.visits().iter().map(|visit| visit.partition).collect();
                self.polls.looked_for_due(&partitions);
                let is_full = due.events.len() >= read.limit();
                let next = if is_full { Some(Duration::ZERO) } else { due.next_due_in };
                self.wanted.due_at =
                    next.map_or(self.wanted.due_at, |next| self.wanted.due_at.min(now + next));
                self.answered(read, Ok(due.events))
            }
            Err(error) => {
                self.wanted.due_at = now;
                self.failed(read, &error)
            }
        }
    }

    fn answered(&mut self, read: Read, came: Result<Vec<Fetched>, StoreError>) -> Vec<Step> {
        match came {
            Ok(events) => {
                events.iter().for_each(|fetched| self.check_place(fetched));
                self.lanes.answer(read, events)
            }
            Err(error) => self.failed(read, &error),
        }
    }

    pub(super) fn failed(&mut self, read: Read, error: &StoreError) -> Vec<Step> {
        self.in_trouble(error);
        self.lanes.fail(read)
    }

    /// A key in a wrong partition loses its order, and nobody else would notice.
    fn check_place(&self, fetched: &Fetched) {
        let (Some(key), Some((partition, _))) = (&fetched.key, fetched.taken.lease.token.partition()) else {
            return;
        };
        let right = partition_of(key);
        if right != partition {
            self.parts.meter.meet_misplaced();
            tracing::error!(
                event_id = fetched.taken.event_id,
                partition,
                right,
                "this event is in a wrong partition, so its key has no order; its writer computes partitions wrongly"
            );
        }
    }

    /// Leaves the database alone for a moment.
    pub(super) fn in_trouble(&mut self, error: &StoreError) {
        tracing::error!(%error, "owned partitions could not be read; trying again");
        self.wanted.trouble_until = self.parts.runtime.clock.now() + PAUSE;
        self.parts.meter.exporter().record_oldest_lag(None);
        self.polls.fail(error);
    }

    fn note_floor(&self, partition: u8) {
        if let Some(floor) = self.lanes.floor(partition).filter(|_| !self.anew.contains_key(&partition)) {
            self.parts.tenure.note(floor);
        }
    }
}

/// Which turn an answer ends. Numbers are asked for before fresh events and looks, whose turn it is still.
fn kind_of(answer: &Answer) -> Option<Kind> {
    match answer {
        Answer::Blocked(..) => Some(Kind::Blocked),
        Answer::Due(..) => Some(Kind::Due),
        Answer::Parked(..) => Some(Kind::Parked),
        Answer::Below(..) => Some(Kind::Below),
        Answer::Behind(..) => Some(Kind::Behind),
        Answer::Fresh(..) => Some(Kind::Fresh),
        Answer::Numbers(..) | Answer::Key(..) | Answer::Started(..) => None,
    }
}

/// A call of the store; a panic in it is an answer too.
pub(super) async fn safely<T>(call: BoxFuture<'_, Result<T, StoreError>>) -> Result<T, StoreError> {
    let answered = CatchPanic(call).await;
    answered.unwrap_or_else(|panic| Err(StoreError::unavailable(format!("the store panicked: {panic}"))))
}
