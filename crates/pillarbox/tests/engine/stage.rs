//! Where the tests play: a memory store and an outbox in paused time.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pillarbox::store::{Administration, EventStore, Owner, Status, StoredEvent, Take, Token, TxStore};
use pillarbox::{
    Delivery, Event, EventBuilder, IntoEvent, ListenerError, MemoryStore, Outbox, OutboxBuilder, Runtime,
    Store,
};
use pillarbox_testkit::paused;

use crate::faults::{Faults, FaultyStore};

/// One second.
pub(crate) const SECOND: Duration = Duration::from_secs(1);
/// One millisecond.
pub(crate) const MILLISECOND: Duration = Duration::from_millis(1);
/// An hour: what a test expects never to wait for.
pub(crate) const HOUR: Duration = Duration::from_secs(3_600);

/// An empty memory store and the runtime that its clock belongs to.
pub(crate) struct Stage {
    pub(crate) store: MemoryStore,
    pub(crate) runtime: Runtime,
}

impl Stage {
    pub(crate) fn set() -> Self {
        Self::seeded(17)
    }

    /// A stage on which all randomness repeats from `seed`.
    pub(crate) fn seeded(seed: u64) -> Self {
        let runtime = paused::runtime(seed);
        Self { store: MemoryStore::with_clock(runtime.clock.clone()), runtime }
    }

    /// An outbox on this stage, still to be configured.
    pub(crate) fn outbox(&self) -> OutboxBuilder<MemoryStore> {
        Outbox::builder(self.store.clone()).runtime(self.runtime.clone())
    }

    /// An outbox on a store that fails as its [`Faults`] say.
    pub(crate) fn faulty(&self) -> (OutboxBuilder<FaultyStore>, Arc<Faults>) {
        let store = FaultyStore::around(&self.store);
        let faults = store.faults.clone();
        (Outbox::builder(store).runtime(self.runtime.clone()), faults)
    }

    /// Lets time pass; all that is due meanwhile happens.
    pub(crate) async fn pass(&self, time: Duration) {
        self.runtime.clock.sleep(time).await;
    }

    /// Lets everything happen that does not wait for a timer of its own.
    pub(crate) async fn quiet(&self) {
        self.pass(Duration::from_millis(100)).await;
    }

    pub(crate) fn now(&self) -> Duration {
        self.runtime.clock.now()
    }

    /// Commits events past every outbox, as a process that died or another program would.
    pub(crate) async fn pending(&self, orders: &[&str]) {
        self.insert(orders.iter().map(|order| placed(order)).collect()).await;
    }

    /// Commits events past every outbox.
    pub(crate) async fn insert(&self, events: Vec<Event>) {
        let mut tx = self.store.open();
        self.store.insert(tx.connection(), &events, None).await.unwrap();
        tx.commit().unwrap();
    }

    /// Takes all pending events and forgets them, as a process does that dies over them.
    pub(crate) async fn die_over_all(&self) {
        let take = Take {
            owner: Owner::new("victim", 1),
            token: Token(self.runtime.random.next_u64() as i64 >> 1),
            limit: 1_000,
            lease_for: Duration::ZERO,
            skip_recent: Duration::ZERO,
            sweep: false,
        };
        self.store.take(take).await.unwrap();
    }

    pub(crate) async fn row(&self, event_id: &str) -> StoredEvent {
        self.store.find(event_id).await.unwrap().expect("the row exists")
    }

    pub(crate) async fn status(&self, event_id: &str) -> Status {
        self.row(event_id).await.status.unwrap()
    }

    pub(crate) async fn has_row(&self, event_id: &str) -> bool {
        self.store.find(event_id).await.unwrap().is_some()
    }
}

/// `OrderPlaced`, with the order as event id and key.
pub(crate) fn placed(order: &str) -> Event {
    placing(order).build().unwrap()
}

/// `OrderPlaced`, to be completed.
pub(crate) fn placing(order: &str) -> EventBuilder {
    Event::builder("OrderPlaced").id(order).key(order).json_text(format!(r#"{{"id":"{order}"}}"#))
}

/// `order-1` to `order-n`.
pub(crate) fn orders(count: usize) -> Vec<String> {
    (1..=count).map(|number| format!("order-{number}")).collect()
}

/// Writes one event in a transaction of its own.
pub(crate) async fn write<S: Store>(outbox: &Outbox<S>, event: impl IntoEvent) -> String {
    let mut tx = outbox.begin().await.unwrap();
    let id = outbox.write(&mut tx, event).await.unwrap();
    tx.commit().await.unwrap();
    id
}

/// Writes events in one transaction.
pub(crate) async fn write_all<S: Store>(outbox: &Outbox<S>, orders: &[String]) {
    let mut tx = outbox.begin().await.unwrap();
    outbox.write_all(&mut tx, orders.iter().map(|order| placed(order))).await.unwrap();
    tx.commit().await.unwrap();
}

/// A list that listeners, hooks and callbacks write down what they see in.
#[derive(Clone, Debug, Default)]
pub(crate) struct Notes<T = String>(Arc<Mutex<Vec<T>>>);

impl<T: Clone> Notes<T> {
    pub(crate) fn new() -> Self {
        Self(Arc::default())
    }

    pub(crate) fn note(&self, what: impl Into<T>) {
        self.0.lock().unwrap().push(what.into());
    }

    pub(crate) fn all(&self) -> Vec<T> {
        self.0.lock().unwrap().clone()
    }

    pub(crate) fn len(&self) -> usize {
        self.0.lock().unwrap().len()
    }
}

impl Notes<Delivery> {
    /// A listener that notes every delivery and succeeds.
    pub(crate) fn listener(
        &self,
    ) -> impl Fn(Delivery) -> std::future::Ready<Result<(), ListenerError>> + use<> {
        self.answering(|_| Ok(()))
    }

    /// A listener that notes every delivery and answers as `answer` says.
    pub(crate) fn answering<A: Fn(&Delivery) -> Result<(), ListenerError>>(
        &self,
        answer: A,
    ) -> impl Fn(Delivery) -> std::future::Ready<Result<(), ListenerError>> + use<A> {
        let notes = self.clone();
        move |delivery| {
            let answer = answer(&delivery);
            notes.note(delivery);
            std::future::ready(answer)
        }
    }

    /// The ids of all deliveries, in order.
    pub(crate) fn ids(&self) -> Vec<String> {
        self.all().iter().map(|delivery| delivery.id().to_owned()).collect()
    }

    /// The ids of all deliveries without their repetitions.
    pub(crate) fn distinct(&self) -> BTreeSet<String> {
        self.ids().into_iter().collect()
    }
}
