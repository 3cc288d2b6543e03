//! The memory store keeps the promises that every store keeps.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use pillarbox::store::LONGEST_LEASE;
use pillarbox::{
    BoxFuture, Clock, Event, MemoryConnection, MemoryStore, MemoryTransaction, Savepoint, SystemClock,
    Timestamp,
};
use pillarbox_testkit::conformance::{OwnershipHarness, StoreHarness, write};

pillarbox_testkit::conformance!(MemoryHarness::fresh());
pillarbox_testkit::ownership_conformance!(MemoryHarness::fresh());

struct MemoryHarness {
    store: Arc<MemoryStore>,
    clock: Arc<LateClock>,
}

impl MemoryHarness {
    fn fresh() -> Self {
        let clock = Arc::new(LateClock::default());
        let store = MemoryStore::with_clock(Arc::clone(&clock) as Arc<dyn Clock>);
        Self { store: Arc::new(store), clock }
    }
}

impl StoreHarness for MemoryHarness {
    type Store = MemoryStore;
    type Savepoint = Savepoint;

    fn store(&self) -> &Arc<MemoryStore> {
        &self.store
    }

    async fn elsewhere(&self) -> Option<Arc<MemoryStore>> {
        None
    }

    async fn open(&self) -> MemoryTransaction {
        self.store.open()
    }

    async fn commit(&self, tx: MemoryTransaction) {
        tx.commit().expect("the transaction commits");
    }

    async fn rollback(&self, tx: MemoryTransaction) {
        tx.rollback();
    }

    async fn savepoint(&self, connection: &mut MemoryConnection) -> Savepoint {
        connection.savepoint()
    }

    async fn rollback_to(&self, connection: &mut MemoryConnection, savepoint: Savepoint) {
        connection.rollback_to(savepoint);
    }

    async fn corrupt(&self, event_id: &str) {
        assert!(self.store.corrupt(event_id, "the headers are not JSON"));
    }

    async fn push_lease_into_future(&self, _event_id: &str) {
        self.clock.go_back(LONGEST_LEASE * 2);
    }
}

impl OwnershipHarness for MemoryHarness {
    async fn put_clock_back(&self) {
        self.clock.go_back(LONGEST_LEASE * 2);
    }

    async fn let_members_age(&self) {
        self.clock.go_on(LONGEST_LEASE * 2);
    }

    async fn open_beside(&self) -> Option<MemoryTransaction> {
        Some(self.store.open())
    }

    /// Nobody writes here but through the store, which gives every row its partition.
    async fn write_without_partition(&self, event: &Event) {
        write(self, std::slice::from_ref(event)).await;
    }

    async fn misplace(&self, event_id: &str, partition: u8) {
        assert!(self.store.misplace(event_id, partition));
    }
}

/// The system's clock, late or early by as much as a test says.
#[derive(Default)]
struct LateClock {
    late_by: AtomicI64,
}

impl LateClock {
    fn go_back(&self, by: Duration) {
        self.late_by.fetch_add(by.as_micros() as i64, Ordering::Relaxed);
    }

    fn go_on(&self, by: Duration) {
        self.late_by.fetch_sub(by.as_micros() as i64, Ordering::Relaxed);
    }
}

impl Clock for LateClock {
    fn now(&self) -> Duration {
        SystemClock.now()
    }

    fn wall(&self) -> Timestamp {
        Timestamp::from_micros(SystemClock.wall().as_micros() - self.late_by.load(Ordering::Relaxed))
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        SystemClock.sleep(duration)
    }
}
