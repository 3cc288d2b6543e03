//! Being a member: the heartbeat, the share of the partitions, and giving them back.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};

use super::{Mailbox, Message, Report, Tenure};
use crate::dispatcher::Dispatcher;
use crate::metrics::{Meter, Share};
use crate::mutant::mutant;
use crate::namesake::Namesake;
use crate::runtime::Runtime;
use crate::shares::share_of;
use crate::shutdown::{Shutdown, Stopped};
use crate::store::{Epoch, Floor, Holding, Instance, Member, Ownership, Pulse, StoreError};

/// Pause after a call that failed.
const PAUSE: Duration = Duration::from_millis(200);

/// The task that keeps an instance alive in the eyes of the others, whatever its mode. Nothing that delivers can delay
/// it; where rows are claimed nothing waits for it either, and it owns nothing.
pub(crate) struct Membership {
    pub(crate) store: Arc<dyn Ownership>,
    pub(crate) runtime: Runtime,
    pub(crate) instance: Instance,
    pub(crate) heartbeat_every: Duration,
    pub(crate) rebalance_every: Duration,
    pub(crate) tenure: Arc<Tenure>,
    pub(crate) meter: Arc<Meter>,
    pub(crate) shutdown: Arc<Shutdown>,
    /// Present if the instance's name was set.
    pub(crate) namesake: Option<Arc<Namesake>>,
    /// Whose deliveries may hang.
    pub(crate) dispatcher: Option<Arc<Dispatcher>>,
    /// The reader, if partitions are owned.
    pub(crate) reader: Option<Mailbox>,
    /// What the reader reports; it ends with the reader.
    pub(crate) reports: mpsc::UnboundedReceiver<Report>,
    /// Completes when everything else has ended.
    pub(crate) finished: oneshot::Receiver<()>,
    pub(crate) held: BTreeMap<u8, Held>,
    pub(crate) course: Course,
}

/// A partition that is held.
pub(crate) struct Held {
    holding: Holding,
    is_draining: bool,
}

/// What one heartbeat leaves for the next.
#[derive(Default)]
pub(crate) struct Course {
    next_beat: Duration,
    last_rebalance: Option<Duration>,
    /// The names of those who were alive at the last heartbeat, and the share that follows from them.
    members: Vec<String>,
    share: Vec<u8>,
    /// A call has failed since the last heartbeat: a failover may have taken numbers back.
    after_outage: bool,
    /// How many outages are over of which the reader has not heard yet: until then its floors are from before.
    unheard: u32,
    /// The deliveries of this instance hang, and that was said.
    hangs: bool,
    /// The latest epoch under which this instance has had each partition.
    epochs: BTreeMap<u8, Epoch>,
    /// Drained, and not given back yet.
    giving_back: Vec<Floor>,
}

impl Course {
    /// Whether what the reader tells of floors is known since the last outage: a failover takes numbers back, and what
    /// gets them again would lie below floors from before.
    fn knows_floors(&self) -> bool {
        !self.after_outage && self.unheard == 0
    }

    fn note(&mut self, report: Report) {
        match report {
            Report::Drained(floor) if self.knows_floors() => self.giving_back.push(floor),
            Report::Drained(floor) => self.giving_back.push(Floor { floor: 0, ..floor }),
            Report::Anew => self.unheard = self.unheard.saturating_sub(1),
        }
    }

    /// Gives back with the floors that are stored: they never fall.
    fn forget_floors(&mut self) {
        self.giving_back.iter_mut().for_each(|floor| floor.floor = 0);
    }
}

impl Membership {
    /// Beats until the instance has nothing more to do.
    pub(crate) async fn run(mut self) {
        if !self.join().await {
            return;
        }
        let mut is_read = self.reader.is_some();
        loop {
            let pause = self.course.next_beat.saturating_sub(self.runtime.clock.now());
            tokio::select! {
                biased;
                report = self.reports.recv(), if is_read => match report {
                    Some(report) => self.reported(report).await,
                    None => is_read = false,
                },
                _ = &mut self.finished, if !is_read => break,
                () = self.runtime.clock.sleep(pause) => self.beat().await,
            }
        }
        self.give_back().await;
        if let Err(error) = self.store.leave(&self.instance.owner).await {
            tracing::warn!(%error, "the list of instances could not be told; this one is struck off after a silence");
        }
        self.record_share(None);
    }

    /// Tries until the instance is a member; false if it is refused or stopped before.
    async fn join(&mut self) -> bool {
        loop {
            let began = self.runtime.clock.now();
            let pause = match self.store.join(&self.instance).await {
                Ok(holdings) => {
                    self.tenure.renew(began + self.instance.live_for);
                    if let Some(namesake) = &self.namesake {
                        namesake.joined();
                    }
                    holdings.into_iter().for_each(|holding| self.begin(holding));
                    return true;
                }
                Err(StoreError::Config(reason)) => {
                    self.stop(Stopped::Refused(reason));
                    return false;
                }
                Err(error) => {
                    tracing::error!(%error, "this instance could not join; trying again");
                    self.pause_after(&error)
                }
            };
            tokio::select! {
                biased;
                () = self.shutdown.draining() => return false,
                () = self.runtime.clock.sleep(pause) => {}
            }
        }
    }

    async fn beat(&mut self) {
        let began = self.runtime.clock.now();
        self.course.next_beat = began + self.heartbeat_every;
        if self.shutdown.reason().is_some() || self.hangs() {
            return self.record_share(None);
        }
        self.give_back().await;
        let floors = if self.course.knows_floors() { self.tenure.floors() } else { Vec::new() };
        let heard = self.store.beat(&self.instance, &floors).await;
        let instances =
            heard.as_ref().ok().filter(|pulse| !pulse.is_replaced).map(|pulse| pulse.members.len());
        match heard {
            Ok(Pulse { is_replaced: true, .. }) => self.stop(Stopped::Superseded),
            Ok(pulse) => {
                // What is lost is let go first, or it would count as renewed until the reader hears of it.
                self.compare(&pulse.held);
                self.tenure.renew(began + self.instance.live_for);
                // Who regains the database lets others record and renew first, and takes what has expired later.
                let stands_back = std::mem::take(&mut self.course.after_outage);
                if self.reader.is_some() && !stands_back && !self.shutdown.is_draining() {
                    self.take_share(&pulse.members).await;
                }
            }
            Err(StoreError::Config(reason)) => self.stop(Stopped::Refused(reason)),
            Err(error) => {
                tracing::error!(%error, "the heartbeat failed; trying again");
                self.course.after_outage = true;
                self.course.next_beat = self.runtime.clock.now() + self.pause_after(&error);
            }
        }
        self.record_share(instances);
    }

    /// How long to wait after an error. One that only an operator can mend is not repeated more often than heartbeats.
    fn pause_after(&self, error: &StoreError) -> Duration {
        if error.is_transient() { PAUSE.min(self.heartbeat_every) } else { self.heartbeat_every }
    }

    /// Tells how partitions are shared among these many instances, if that is known, and how many keys are held back:
    /// the reader knows.
    fn record_share(&self, instances: Option<usize>) {
        let (held, fair) = (self.held.len(), self.course.share.len());
        self.meter.exporter().record_share(instances.map(|instances| Share { instances, held, fair }));
        match &self.reader {
            Some(reader) if instances.is_some() => reader.tell(Message::CountKeys),
            _ => self.meter.exporter().record_keys(None),
        }
    }

    /// Whether a delivery has not ended though its time is over: then others take the partitions when the leases end,
    /// for nobody knows whether it ever will. Rows that were taken one by one have leases of their own.
    fn hangs(&mut self) -> bool {
        let hangs =
            self.reader.is_some() && self.dispatcher.as_ref().is_some_and(|dispatcher| dispatcher.hangs());
        if hangs && !self.course.hangs {
            tracing::error!(
                "a delivery does not end though its time is over; the partitions are left to others"
            );
        }
        self.course.hangs = hangs;
        hangs
    }

    /// Tells the reader what is different from what it knows.
    fn compare(&mut self, pulse: &[Holding]) {
        let is_held = |partition: &u8| pulse.iter().any(|holding| holding.partition == *partition);
        let lost: Vec<u8> = self.held.keys().copied().filter(|partition| !is_held(partition)).collect();
        for partition in lost {
            tracing::warn!(partition, "this partition has passed to another instance");
            self.lose(partition);
        }
        for holding in pulse {
            match self.held.get_mut(&holding.partition) {
                Some(held) if held.holding.epoch == holding.epoch => {
                    let is_absolved = held.holding.crashes > 0 && holding.crashes == 0;
                    held.holding = *holding;
                    let is_draining = held.is_draining || self.shutdown.is_draining();
                    if self.course.after_outage && is_draining {
                        // It is given back with the floor that is stored, and not with one from before.
                        self.tell(Message::Begin(*holding));
                        self.tell(Message::Drain(holding.partition));
                    } else if self.course.after_outage {
                        self.begin(*holding);
                    } else if is_absolved {
                        self.tell(Message::Absolve(holding.partition));
                    }
                }
                _ => self.begin(*holding),
            }
        }
        if self.course.after_outage && self.reader.is_some() {
            self.course.unheard += 1;
            self.tell(Message::Anew);
        }
    }

    /// Acquires what of the share is free, and now and then lets go of what is not in it.
    async fn take_share(&mut self, members: &[Member]) {
        let share = self.share(members);
        let wanted: Vec<u8> =
            share.iter().copied().filter(|partition| !self.held.contains_key(partition)).collect();
        if !wanted.is_empty() {
            match self.store.acquire(&self.instance, &wanted).await {
                Ok(given) => given.into_iter().for_each(|holding| self.begin(holding)),
                Err(error) => {
                    tracing::error!(%error, "partitions could not be acquired; trying again");
                    self.course.after_outage = true;
                }
            }
        }
        self.tell(Message::HasShare);
        let now = self.runtime.clock.now();
        let is_time = |last: Duration| now.saturating_sub(last) >= self.rebalance_every;
        if self.course.last_rebalance.is_none_or(is_time) {
            self.course.last_rebalance = Some(now);
            self.drain_all_but(&share);
        }
    }

    /// The partitions that should be this instance's own, computed anew only if the members have changed.
    fn share(&mut self, members: &[Member]) -> Vec<u8> {
        let names: Vec<&str> = members.iter().map(|member| member.owner.name()).collect();
        if self.course.members != names {
            self.course.share = share_of(self.instance.owner.name(), &names);
            self.course.members = names.into_iter().map(str::to_owned).collect();
        }
        self.course.share.clone()
    }

    /// Lets what is not in the share come to its end, so that it can be given back.
    fn drain_all_but(&mut self, share: &[u8]) {
        let mut surplus = Vec::new();
        for (partition, held) in &mut self.held {
            if !share.contains(partition) && !held.is_draining {
                held.is_draining = true;
                surplus.push(*partition);
            }
        }
        for partition in surplus {
            if mutant!(HandOverWithoutDrain) {
                self.course
                    .giving_back
                    .extend(self.tenure.floors().into_iter().filter(|floor| floor.partition == partition));
            }
            self.tell(Message::Drain(partition));
        }
    }

    /// Takes in a report of the reader, and those that have come with it.
    async fn reported(&mut self, report: Report) {
        self.course.note(report);
        while let Ok(report) = self.reports.try_recv() {
            self.course.note(report);
        }
        self.give_back().await;
    }

    /// Gives back what is drained; what fails is tried again with the next heartbeat.
    async fn give_back(&mut self) {
        if self.course.giving_back.is_empty() {
            return;
        }
        if self.course.after_outage {
            self.course.forget_floors();
        }
        match self.store.release(&self.instance.owner, &self.course.giving_back).await {
            Ok(()) => {
                for Floor { partition, epoch, .. } in std::mem::take(&mut self.course.giving_back) {
                    // It may have been acquired anew since it was drained.
                    if self.held.get(&partition).is_some_and(|held| held.holding.epoch == epoch) {
                        self.held.remove(&partition);
                        self.tenure.let_go(partition);
                    }
                }
            }
            Err(error) => {
                tracing::error!(%error, "partitions could not be given back; trying again");
                self.course.after_outage = true;
                self.course.forget_floors();
            }
        }
    }

    fn begin(&mut self, holding: Holding) {
        if self.is_over(holding) {
            self.lose(holding.partition);
            return self.hand_back(holding);
        }
        self.course.epochs.insert(holding.partition, holding.epoch);
        let is_draining = self.shutdown.is_draining();
        self.held.insert(holding.partition, Held { holding, is_draining });
        self.tenure.hold(holding.partition, holding.epoch);
        if is_draining {
            // The reader begins nothing any more, so nobody else would give it back.
            self.hand_back(holding);
        } else {
            self.tell(Message::Begin(holding));
        }
    }

    /// Whether this instance has had the partition under this epoch, or a later one, and lost it: a failover has taken
    /// back that others acquired it. What was read under the epoch may still run here and would pass for what is read
    /// now, so it is given back, and the next owner has another.
    fn is_over(&self, holding: Holding) -> bool {
        let is_held = |held: &Held| held.holding.epoch == holding.epoch;
        let is_known = |epoch: &Epoch| *epoch >= holding.epoch;
        self.course.epochs.get(&holding.partition).is_some_and(is_known)
            && !self.held.get(&holding.partition).is_some_and(is_held)
    }

    fn hand_back(&mut self, Holding { partition, epoch, floor, .. }: Holding) {
        self.course.giving_back.retain(|floor| floor.partition != partition);
        self.course.giving_back.push(Floor { partition, epoch, floor });
    }

    fn lose(&mut self, partition: u8) {
        self.held.remove(&partition);
        self.tenure.let_go(partition);
        self.course.giving_back.retain(|floor| floor.partition != partition);
        self.tell(Message::Lose(partition));
    }

    fn tell(&self, message: Message) {
        if let Some(reader) = &self.reader {
            reader.tell(message);
        }
    }

    /// This instance has no right to go on.
    fn stop(&mut self, reason: Stopped) {
        tracing::error!(%reason, owner = %self.instance.owner, "this instance stops");
        for partition in std::mem::take(&mut self.held).into_keys() {
            self.tenure.let_go(partition);
            self.tell(Message::Lose(partition));
        }
        self.shutdown.stop(reason);
    }
}
