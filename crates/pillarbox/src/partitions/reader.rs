//! The reader: what the poller is for claims, for owned partitions.

mod hand_on;
mod looks;
mod polls;
mod reads;
mod wanted;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;

use self::polls::Polls;
use self::reads::Known;
use self::wanted::Wanted;
use super::{Hints, Mailbox, Message, Report, Tenure};
use crate::config::Config;
use crate::dispatcher::Dispatcher;
use crate::lanes::{Lanes, Limits, Order};
use crate::metrics::Meter;
use crate::runtime::Runtime;
use crate::settler::SettlerHandle;
use crate::shutdown::Shutdown;
use crate::store::{Floor, Holding, Lease, Ownership, Token};

/// The most messages that are taken in before it is seen whether something is to be read.
const MOST_AT_ONCE: usize = 256;
/// So many keys with long backlogs, of which all events are slow, leave no memory for the others.
const MEMORY_OF_KEYS: usize = 4;
/// Pause after an error, and while the partitions may be lost.
const PAUSE: Duration = Duration::from_millis(200);

/// What the reader works with.
pub(crate) struct Parts {
    pub(crate) store: Arc<dyn Ownership>,
    pub(crate) runtime: Runtime,
    pub(crate) config: Config,
    pub(crate) dispatcher: Arc<Dispatcher>,
    pub(crate) settler: SettlerHandle,
    pub(crate) meter: Arc<Meter>,
    pub(crate) shutdown: Arc<Shutdown>,
    pub(crate) tenure: Arc<Tenure>,
    pub(crate) hints: Arc<Hints>,
    /// Where the membership hears of it.
    pub(crate) reports: mpsc::UnboundedSender<Report>,
}

/// Reads owned partitions, keeps their order by the lanes, and hands on what runs.
pub(crate) struct Reader {
    parts: Parts,
    mailbox: Mailbox,
    messages: mpsc::UnboundedReceiver<Message>,
    lanes: Lanes,
    /// What the lanes know.
    owned: BTreeSet<u8>,
    /// Held, but which of their keys are blocked is not known yet.
    beginning: BTreeMap<u8, Holding>,
    /// What had begun when its partition was lost, and is not recorded: until it is, nothing of the partition is read, or
    /// the same event would run twice in this process.
    left_behind: BTreeMap<u8, BTreeSet<(Token, i64)>>,
    /// To be begun anew once nothing of them is in flight.
    anew: BTreeMap<u8, Holding>,
    /// To be given back once nothing of them is in flight, with a floor that is not higher than this.
    leaving: BTreeMap<u8, i64>,
    /// All of the share that was free has been acquired once.
    has_share: bool,
    wanted: Wanted,
    known: Known,
    polls: Polls,
}

impl Reader {
    pub(crate) fn new(
        parts: Parts,
        order: Order,
        (mailbox, messages): (Mailbox, mpsc::UnboundedReceiver<Message>),
    ) -> Self {
        let events = parts.config.cold_queue;
        let of_key = parts.config.run_events.min(events.div_ceil(MEMORY_OF_KEYS));
        let limits = Limits { events, unrecorded: parts.config.unrecorded(), of_key };
        Self {
            lanes: Lanes::new(order, limits),
            wanted: Wanted::new(parts.runtime.clock.now()),
            known: Known::default(),
            has_share: false,
            parts,
            mailbox,
            messages,
            owned: BTreeSet::new(),
            beginning: BTreeMap::new(),
            left_behind: BTreeMap::new(),
            anew: BTreeMap::new(),
            leaving: BTreeMap::new(),
            polls: Polls::default(),
        }
    }

    /// Reads until the shutdown has begun and nothing is in flight any more.
    pub(crate) async fn run(mut self) {
        let shutdown = self.parts.shutdown.clone();
        while !shutdown.is_draining() {
            self.open_polls();
            self.begin_reads();
            self.answer_polls();
            let pause = self.pause();
            tokio::select! {
                biased;
                message = self.messages.recv() => self.take_in(message).await,
                () = shutdown.draining() => {}
                () = self.parts.hints.given() => {}
                () = self.parts.runtime.clock.sleep(pause) => {}
            }
        }
        self.close().await;
    }

    /// Lets what runs come to its end, and gives all partitions back; what does not end in time is left behind.
    async fn close(&mut self) {
        // What was told before the shutdown may be a partition that is held since.
        while let Ok(message) = self.messages.try_recv() {
            self.hear(message).await;
        }
        let held: Vec<u8> = self.beginning.keys().chain(&self.owned).copied().collect();
        held.into_iter().for_each(|partition| self.drain(partition));
        let shutdown = self.parts.shutdown.clone();
        let (clock, grace) = (self.parts.runtime.clock.clone(), self.parts.config.margin / 2);
        let mut too_late = std::pin::pin!(async move {
            shutdown.over().await;
            clock.sleep(grace).await;
        });
        self.let_go_of_empty();
        while !self.owned.is_empty() {
            tokio::select! {
                biased;
                message = self.messages.recv() => self.take_in(message).await,
                () = &mut too_late => return,
            }
        }
    }

    /// Takes in a message, and those that have come with it; not so many that nothing would be read meanwhile.
    async fn take_in(&mut self, message: Option<Message>) {
        let Some(message) = message else { return };
        self.hear(message).await;
        for _ in 1..MOST_AT_ONCE {
            let Ok(message) = self.messages.try_recv() else { break };
            self.hear(message).await;
        }
        self.let_go_of_empty();
    }

    async fn hear(&mut self, message: Message) {
        match message {
            Message::Begin(holding) => self.begin(holding),
            Message::Lose(partition) => self.lose(partition),
            Message::Drain(partition) => self.drain(partition),
            Message::Absolve(partition) => self.lanes.absolve(partition),
            Message::Anew => self.report(Report::Anew),
            Message::HasShare => self.has_share = true,
            Message::Ended(settlement) => {
                let steps = self.lanes.ended(settlement);
                self.follow(steps).await;
            }
            Message::Recorded { lease, is_applied } => {
                self.note_end(lease);
                // What was given back is fresh again, and nobody else will tell of it.
                self.wanted.hinted.extend(self.lanes.given_back(lease));
                let steps = self.lanes.recorded(lease, is_applied);
                self.follow(steps).await;
            }
            Message::CountKeys => self.count_keys(),
            Message::Barrier(passed) => {
                // Nobody may be waiting any more.
                let _ = passed.send(());
            }
            Message::Poll(reply) => self.polls.ask(reply),
            Message::Came(answer) => self.came(answer).await,
        }
    }

    /// Tells the metrics how many keys are held back, unless there are partitions of which that is not known yet.
    fn count_keys(&self) {
        let is_known = self.beginning.is_empty() && self.anew.is_empty();
        let keys = is_known.then(|| self.lanes.held_back());
        self.parts.meter.exporter().record_keys(keys);
    }

    /// A partition is held.
    fn begin(&mut self, holding: Holding) {
        let partition = holding.partition;
        self.leaving.remove(&partition);
        self.beginning.remove(&partition);
        // It may be from before a failover, and lie above numbers that are given again.
        self.known.forget();
        match self.lanes.floor(partition) {
            // What runs is not read a second time: it comes to its end first. Its floor counts no more.
            Some(floor) if floor.epoch == holding.epoch => {
                self.lanes.drain(partition);
                self.anew.insert(partition, holding);
                self.parts.tenure.note(Floor { floor: holding.floor, ..floor });
            }
            _ => {
                self.lose(partition);
                self.beginning.insert(partition, holding);
            }
        }
    }

    fn lose(&mut self, partition: u8) {
        let begun: Vec<_> = self.lanes.begun(partition).collect();
        if !begun.is_empty() {
            self.left_behind.entry(partition).or_default().extend(begun);
        }
        self.beginning.remove(&partition);
        self.anew.remove(&partition);
        self.leaving.remove(&partition);
        self.owned.remove(&partition);
        self.wanted.forget(partition);
        self.lanes.lose(partition);
        self.parts.tenure.forget(partition);
    }

    /// What became of an event is recorded, or never will be.
    fn note_end(&mut self, lease: Lease) {
        let Some((partition, _)) = lease.token.partition() else { return };
        if let Some(left) = self.left_behind.get_mut(&partition) {
            left.remove(&(lease.token, lease.seq));
            if left.is_empty() {
                self.left_behind.remove(&partition);
            }
        }
    }

    /// A partition is to be given back.
    fn drain(&mut self, partition: u8) {
        let beginning = self.beginning.remove(&partition);
        let anew = self.anew.remove(&partition);
        if self.owned.contains(&partition) {
            self.lanes.drain(partition);
            // It may have been told to leave before, and to begin anew before that.
            let most = self.leaving.entry(partition).or_insert(i64::MAX);
            *most = anew.map_or(*most, |holding| holding.floor);
        } else if let Some(Holding { epoch, floor, .. }) = beginning {
            self.report(Report::Drained(Floor { partition, epoch, floor }));
        }
    }

    /// Gives back, or begins anew, what has nothing in flight any more.
    fn let_go_of_empty(&mut self) {
        let lanes = &self.lanes;
        let leaving: Vec<_> = self.leaving.iter().map(|(&partition, &most)| (partition, most)).collect();
        let anew: Vec<Holding> =
            self.anew.values().filter(|holding| lanes.is_empty(holding.partition)).copied().collect();
        for (partition, most) in leaving {
            if !self.lanes.is_empty(partition) {
                continue;
            }
            let floor = self.lanes.floor(partition);
            self.lose(partition);
            if let Some(floor) = floor {
                self.report(Report::Drained(Floor { floor: floor.floor.min(most), ..floor }));
            }
        }
        for holding in anew {
            self.lose(holding.partition);
            self.beginning.insert(holding.partition, holding);
        }
    }

    fn report(&self, report: Report) {
        // The membership is gone only when the process is.
        let _ = self.parts.reports.send(report);
    }

    /// Wants everything to be looked at, if somebody has asked for it and this instance has its share.
    fn open_polls(&mut self) {
        if self.polls.are_asked() && self.has_share && self.beginning.is_empty() {
            self.polls.open(&self.owned);
            self.wanted.look_at_everything(&self.owned, self.parts.runtime.clock.now());
            self.lanes.look_back();
        }
    }

    /// Says that everything was looked at for which there is room, to those who wait for it.
    fn answer_polls(&mut self) {
        let is_barred = self.barred_for().is_some();
        let is_full = self.lanes.room() < self.parts.config.worthwhile_room() || is_barred;
        let (owned, leaving, anew, lanes) = (&self.owned, &self.leaving, &self.anew, &self.lanes);
        // What is drained is read by whoever has it next.
        let is_read = |partition: u8| {
            owned.contains(&partition) && !leaving.contains_key(&partition) && !anew.contains_key(&partition)
        };
        self.polls.answer(
            |partition| !is_full && is_read(partition) && lanes.has_room(partition),
            |partition| !is_barred && is_read(partition),
        );
    }

    /// How long there is nothing to do if nobody says anything.
    fn pause(&self) -> Duration {
        if self.wanted.is_reading {
            // Its answer is a message.
            return self.parts.config.poll_every;
        }
        let now = self.parts.runtime.clock.now();
        match self.barred_for() {
            _ if !self.may_read() => self.wanted.next_time(now).max(now + PAUSE) - now,
            // What was given back waits for this and for nothing else.
            Some(wait) => wait,
            None => self.wanted.next_time(now).max(now) - now,
        }
    }

    /// How long nothing is read because every destination is down; what is read could only be given back.
    fn barred_for(&self) -> Option<Duration> {
        let admitted = self.parts.dispatcher.admitted();
        (admitted.events == 0).then_some(admitted.wait)
    }

    /// Whether the partitions are held for long enough that something can be delivered.
    fn may_read(&self) -> bool {
        self.parts.tenure.left() >= self.parts.config.margin
    }
}
