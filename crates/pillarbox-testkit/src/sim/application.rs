//! The application: writers with good and bad manners.

use std::sync::Arc;
use std::time::Duration;

use pillarbox::store::CommitError;
use pillarbox::{Event, MemoryStore, Outbox, Tx, WriteError};

use super::options::Order;
use super::process::Process;
use super::rng::Rng;
use crate::faulty::FaultyStore;
use crate::ledger::Ending;
use crate::paused::NOON;

/// How the receiver of an event behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Fine,
    Slow,
    Flaky,
    Broken,
    Refused,
    Panicking,
    Hanging,
    NotNow,
    /// For the sink.
    Published,
    /// For several handlers, with a fallback.
    Placed,
    /// For several handlers, without one.
    Paid,
    /// For three sinks.
    Shipped,
    /// For two sinks.
    Refunded,
    /// For one sink that others have too.
    Invoiced,
    /// Nobody listens.
    Stray,
    /// Its delivery kills the process.
    Poison,
}

impl Kind {
    /// Every kind with its name, which is the event type and the beginning of the event id.
    pub(super) const ALL: [(Self, &'static str); 16] = [
        (Self::Fine, "fine"),
        (Self::Slow, "slow"),
        (Self::Flaky, "flaky"),
        (Self::Broken, "broken"),
        (Self::Refused, "refused"),
        (Self::Panicking, "panicking"),
        (Self::Hanging, "hanging"),
        (Self::NotNow, "notnow"),
        (Self::Published, "published"),
        (Self::Placed, "placed"),
        (Self::Paid, "paid"),
        (Self::Shipped, "shipped"),
        (Self::Refunded, "refunded"),
        (Self::Invoiced, "invoiced"),
        (Self::Stray, "stray"),
        (Self::Poison, "poison"),
    ];

    pub(super) fn of(event_id: &str) -> Self {
        let name = event_id.split('-').next().unwrap_or_default();
        Self::ALL.iter().find(|(_, known)| *known == name).map_or(Self::Stray, |&(kind, _)| kind)
    }

    pub(super) fn name(self) -> &'static str {
        Self::ALL.iter().find(|&&(kind, _)| kind == self).map_or("stray", |&(_, name)| name)
    }

    fn draw(rng: &Rng, has_poison: bool) -> Self {
        match rng.below(100) {
            0..30 => Self::Fine,
            30..38 => Self::Slow,
            38..50 => Self::Flaky,
            50..53 => Self::Broken,
            53..56 => Self::Refused,
            56..62 => Self::Panicking,
            62..68 => Self::Hanging,
            68..74 => Self::NotNow,
            74..94 => Self::Published,
            94..97 => Self::Stray,
            _ if has_poison => Self::Poison,
            _ => Self::Fine,
        }
    }

    /// What it is where events go to handlers.
    fn handled(self) -> Self {
        match self {
            Self::Poison => Self::Poison,
            Self::Flaky | Self::Published => Self::Paid,
            _ => Self::Placed,
        }
    }

    /// What it is where events go to named sinks.
    fn routed(self) -> Self {
        match self {
            Self::Poison => Self::Poison,
            Self::Fine | Self::Slow => Self::Shipped,
            Self::Flaky | Self::Published => Self::Refunded,
            _ => Self::Invoiced,
        }
    }
}

pub(super) type SimStore = FaultyStore<MemoryStore>;
type SimOutbox = Outbox<SimStore>;

/// One writer of the application.
pub(super) struct Writer {
    pub(super) process: Arc<Process>,
    pub(super) outbox: SimOutbox,
    pub(super) rng: Rng,
}

impl Writer {
    /// Writes in `transactions` transactions, one after the other.
    pub(super) async fn run(self, transactions: u64) {
        for _ in 0..transactions {
            tokio::time::sleep(self.rng.millis(0, 400)).await;
            match self.rng.below(16) {
                0..5 => self.commit().await,
                5 => self.roll_back().await,
                6 => self.forget().await,
                7 | 8 => self.go_back_to_savepoint().await,
                9 => self.abort_silently().await,
                10 => self.cancel_write().await,
                11 => self.cancel_commit().await,
                12 | 13 => self.write_ambient().await,
                14 => self.write_foreign().await,
                _ => {
                    // Whether it helps does not matter here.
                    let _ = self.outbox.poll().await;
                }
            }
        }
    }

    /// The end of a transaction that went as it should, unless the answer was lost.
    async fn commit(&self) {
        let Some(mut tx) = self.begin().await else { return };
        let (events, ids) = self.events();
        let is_written = self.write(&mut tx, events).await.is_ok();
        if !is_written && self.rng.chance(500) {
            drop(tx);
            return self.ended(&ids, Ending::RolledBack);
        }
        self.pause().await;
        self.ended(&ids, ending(tx.commit().await, is_written));
    }

    async fn roll_back(&self) {
        let Some(mut tx) = self.begin().await else { return };
        let (events, ids) = self.events();
        let _ = self.write(&mut tx, events).await;
        let _ = tx.rollback().await;
        self.ended(&ids, Ending::RolledBack);
    }

    async fn forget(&self) {
        let Some(mut tx) = self.begin().await else { return };
        let (events, ids) = self.events();
        let _ = self.write(&mut tx, events).await;
        drop(tx);
        self.ended(&ids, Ending::RolledBack);
    }

    /// Goes back behind the outbox's back; what was written before the savepoint stays.
    async fn go_back_to_savepoint(&self) {
        let Some(mut tx) = self.begin().await else { return };
        let (kept, kept_ids) = self.events();
        let is_kept = self.write(&mut tx, kept).await.is_ok();
        let savepoint = tx.savepoint();
        let (dropped, dropped_ids) = self.events();
        let _ = self.write(&mut tx, dropped).await;
        tx.rollback_to(savepoint);
        self.ended(&kept_ids, ending(tx.commit().await, is_kept));
        self.ended(&dropped_ids, Ending::RolledBack);
    }

    /// COMMIT answers `Ok` and rolls back.
    async fn abort_silently(&self) {
        let Some(mut tx) = self.begin().await else { return };
        let (events, ids) = self.events();
        let _ = self.write(&mut tx, events).await;
        tx.abort_silently();
        let _ = tx.commit().await;
        self.ended(&ids, Ending::RolledBack);
    }

    async fn cancel_write(&self) {
        let Some(mut tx) = self.begin().await else { return };
        let (events, ids) = self.events();
        let is_cancelled = tokio::select! {
            biased;
            _ = self.write(&mut tx, events) => false,
            () = self.moment() => true,
        };
        let is_active = tx.is_active();
        let committed = tx.commit().await;
        if is_cancelled && !is_active {
            if !matches!(committed, Err(CommitError::RolledBack { .. })) {
                self.process.world.violation(format!("{ids:?} were committed after a cancelled write"));
            }
            self.process.world.cover("cancelled writes", 1);
            return self.ended(&ids, Ending::RolledBack);
        }
        self.ended(&ids, Ending::Unknown);
    }

    async fn cancel_commit(&self) {
        let Some(mut tx) = self.begin().await else { return };
        let (events, ids) = self.events();
        let is_written = self.write(&mut tx, events).await.is_ok();
        let ending = tokio::select! {
            biased;
            committed = tx.commit() => ending(committed, is_written),
            () = self.moment() => {
                self.process.world.cover("cancelled commits", 1);
                Ending::Unknown
            }
        };
        self.ended(&ids, ending);
    }

    async fn write_ambient(&self) {
        let (events, ids) = self.events();
        let is_fine = self.rng.chance(700);
        let body = async {
            for event in events {
                self.outbox.write_current(event).await?;
            }
            if is_fine { Ok(()) } else { Err(WriteError::Cancelled) }
        };
        let ending = match self.outbox.transaction(body).await {
            Ok(()) => Ending::Committed,
            Err(pillarbox::TransactionError::Commit(error)) => ending(Err(error), true),
            Err(_) => Ending::RolledBack,
        };
        self.ended(&ids, ending);
    }

    /// A transaction that the outbox knows nothing of.
    async fn write_foreign(&self) {
        let mut tx = self.process.world.db.open();
        let (events, ids) = self.events();
        let receipt = self.outbox.write_in(&mut tx, events).await;
        let is_written = receipt.is_ok();
        self.pause().await;
        let ending = ending(tx.commit(), is_written);
        self.process.world.note_commits();
        if let Ok(receipt) = receipt
            && self.rng.chance(500)
        {
            self.outbox.committed(receipt);
        }
        self.ended(&ids, ending);
    }

    async fn begin(&self) -> Option<Tx<SimStore>> {
        let tx = self.outbox.begin().await.ok();
        if self.rng.chance(150) {
            self.pause().await;
        }
        tx
    }

    async fn write(&self, tx: &mut Tx<SimStore>, events: Vec<Event>) -> Result<(), WriteError> {
        if self.rng.chance(500) {
            return self.outbox.write_all(tx, events).await.map(drop);
        }
        for event in events {
            self.outbox.write(tx, event).await?;
        }
        Ok(())
    }

    fn events(&self) -> (Vec<Event>, Vec<String>) {
        let many = if self.rng.chance(50) { 12 } else { 4 };
        let events: Vec<Event> = (0..self.rng.between(1, many)).map(|_| self.event()).collect();
        let ids = events.iter().map(|event| event.id().to_owned()).collect();
        (events, ids)
    }

    fn event(&self) -> Event {
        let world = &self.process.world;
        let kind = Kind::draw(&self.rng, world.may_poison());
        let kind = match (world.options.has_handlers, world.options.has_routes) {
            (true, _) => kind.handled(),
            (_, true) => kind.routed(),
            _ => kind,
        };
        if kind == Kind::Poison {
            world.poisoned();
        }
        let id = format!("{}-{}", kind.name(), world.next_event());
        let key = world.options.owned.and_then(|owned| self.key(owned.keys));
        world.ledger.written(&id, key.as_deref());
        if kind == Kind::Stray && world.order() == Order::Release {
            // It is dead as soon as it is read, and never delivered.
            world.ledger.is_through(&id);
        }
        let event = Event::builder(kind.name()).id(id).occurred_at(NOON).json_text("{}");
        let event = match key {
            Some(key) => event.key(key),
            None => event,
        };
        let event = if self.rng.chance(100) { event.deliver_after(self.rng.millis(0, 5_000)) } else { event };
        event.build().expect("the event is valid")
    }

    /// One of so many keys, or none.
    fn key(&self, keys: u64) -> Option<String> {
        self.rng.chance(800).then(|| format!("customer-{}", self.rng.below(keys)))
    }

    fn ended(&self, ids: &[String], ending: Ending) {
        for id in ids {
            self.process.world.note(format_args!("{} ended {id}: {ending:?}", self.process.number));
            self.process.world.ledger.ended(id, ending);
        }
    }

    /// Mostly no time at all, seldom longer than a lease.
    async fn pause(&self) {
        if self.rng.chance(200) {
            tokio::time::sleep(self.rng.millis(1, 6_000)).await;
        }
    }

    async fn moment(&self) {
        let time = self.rng.millis(0, 3);
        if time > Duration::ZERO {
            tokio::time::sleep(time).await;
        } else {
            tokio::task::yield_now().await;
        }
    }
}

/// How a transaction ended for events of which the writer knows whether they were written.
fn ending(committed: Result<(), CommitError>, is_written: bool) -> Ending {
    match committed {
        Ok(()) if is_written => Ending::Committed,
        Err(CommitError::RolledBack { .. }) => Ending::RolledBack,
        Ok(()) | Err(_) => Ending::Unknown,
    }
}
