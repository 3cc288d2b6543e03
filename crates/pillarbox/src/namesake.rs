//! Finding out that another instance was started under the same name.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crate::dispatcher::CatchPanic;
use crate::runtime::Runtime;
use crate::shutdown::{Shutdown, Stopped};
use crate::store::{EventStore, Owner, StoreError};

/// How often an instance that loses nothing looks, while it settles.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Looks whether this instance is still the one that its name stands for. Names are unique by the operator's
/// promise; where it was broken the older instance stops, for the younger has taken its leases over.
pub(crate) struct Namesake {
    store: Arc<dyn EventStore>,
    runtime: Runtime,
    shutdown: Arc<Shutdown>,
    owner: Owner,
    /// Only who has joined can have been replaced: before, an earlier incarnation may still be listed.
    has_joined: AtomicBool,
    /// When it looked last, in milliseconds of the local clock.
    looked_at: AtomicU64,
    is_looking: AtomicBool,
}

impl Namesake {
    pub(crate) fn new(
        store: Arc<dyn EventStore>,
        runtime: Runtime,
        shutdown: Arc<Shutdown>,
        owner: Owner,
    ) -> Arc<Self> {
        let looked_at = AtomicU64::new(millis(runtime.clock.now()));
        let (has_joined, is_looking) = (AtomicBool::new(false), AtomicBool::new(false));
        Arc::new(Self { store, runtime, shutdown, owner, has_joined, looked_at, is_looking })
    }

    /// This instance is a member.
    pub(crate) fn joined(&self) {
        self.has_joined.store(true, Ordering::Relaxed);
    }

    /// Called when outcomes were recorded: looks soon if leases were lost, else now and then. Never waits, for a
    /// database that is silent must not keep outcomes from being recorded.
    pub(crate) fn settled(self: &Arc<Self>, lost_leases: bool) {
        if !self.has_joined.load(Ordering::Relaxed) {
            return;
        }
        let now = millis(self.runtime.clock.now());
        let is_time = now.saturating_sub(self.looked_at.load(Ordering::Relaxed)) >= millis(LOOK_EVERY);
        if (lost_leases || is_time) && !self.is_looking.swap(true, Ordering::Relaxed) {
            self.looked_at.store(now, Ordering::Relaxed);
            self.runtime.spawner.spawn("namesake", Box::pin(self.clone().look()));
        }
    }

    async fn look(self: Arc<Self>) {
        let looked = CatchPanic(self.store.is_current(&self.owner)).await;
        let looked =
            looked.unwrap_or_else(|panic| Err(StoreError::unavailable(format!("panicked: {panic}"))));
        match looked {
            Ok(false) if !self.shutdown.is_draining() => {
                tracing::error!(
                    name = self.owner.name(),
                    "another instance was started under this name, so this one stops; give every instance its own"
                );
                self.shutdown.stop(Stopped::Superseded);
            }
            Ok(_) => {}
            Err(error) => {
                tracing::debug!(%error, "whether the name is taken could not be read; looking again");
            }
        }
        self.is_looking.store(false, Ordering::Relaxed);
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
