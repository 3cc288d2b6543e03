//! The acceptance tests, on the memory store in paused time.

use pillarbox::{MemoryStore, Runtime};
use pillarbox_testkit::acceptance::Stage;
use pillarbox_testkit::paused;

pillarbox_testkit::acceptance!(MemoryStage::fresh());

struct MemoryStage {
    store: MemoryStore,
    runtime: Runtime,
}

impl MemoryStage {
    fn fresh() -> Self {
        tokio::time::pause();
        let runtime = paused::runtime(17);
        Self { store: MemoryStore::with_clock(runtime.clock.clone()), runtime }
    }
}

impl Stage for MemoryStage {
    type Store = MemoryStore;

    fn store(&self) -> MemoryStore {
        self.store.clone()
    }

    fn runtime(&self) -> Runtime {
        self.runtime.clone()
    }
}
