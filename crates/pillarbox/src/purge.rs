//! Deletes old done events, a little at a time.

use std::sync::Arc;
use std::time::Duration;

use crate::runtime::Runtime;
use crate::shutdown::Shutdown;
use crate::store::{Administration, Purge, StoreError};

/// Rows looked at in one step, and the pause between steps that leaves the database to others.
const STEP: usize = 1_000;
const PAUSE: Duration = Duration::from_millis(20);

/// Deletes done events that are older than `keep_for`, again and again until the shutdown begins.
pub(crate) async fn run(
    store: Arc<dyn Administration>,
    runtime: Runtime,
    shutdown: Arc<Shutdown>,
    keep_for: Duration,
) {
    let every = (keep_for / 10).clamp(Duration::from_secs(1), Duration::from_secs(3_600));
    while !shutdown.is_draining() {
        match purge_all(&*store, &runtime, &shutdown, keep_for).await {
            Ok(0) => {}
            Ok(events) => tracing::info!(events, "purged old done events"),
            Err(error) => tracing::error!(%error, "old done events could not be purged"),
        }
        tokio::select! {
            biased;
            () = shutdown.draining() => {}
            () = runtime.clock.sleep(every) => {}
        }
    }
}

async fn purge_all(
    store: &dyn Administration,
    runtime: &Runtime,
    shutdown: &Shutdown,
    keep_for: Duration,
) -> Result<u64, StoreError> {
    let mut step = Purge { older_than: keep_for, limit: STEP, after: 0, dead_too: false };
    let mut deleted = 0;
    loop {
        let purged = store.purge(step).await?;
        deleted += purged.deleted;
        let Some(next) = purged.next else { return Ok(deleted) };
        if shutdown.is_draining() {
            return Ok(deleted);
        }
        step.after = next;
        runtime.clock.sleep(PAUSE).await;
    }
}
