//! Where outcomes are handed in, and what the settler must know of the load.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::{Notify, mpsc, oneshot};

use crate::partitions::{Mailbox, Message};
use crate::store::Settlement;

/// Where outcomes are handed in.
#[derive(Clone)]
pub(crate) struct SettlerHandle {
    pub(super) entries: mpsc::Sender<Entry>,
    pub(super) state: Arc<SettlerState>,
    /// The reader of owned partitions, which decides what follows from an outcome.
    pub(super) reader: Option<Mailbox>,
}

#[derive(Default)]
pub(super) struct SettlerState {
    /// The last write failed and is being tried again.
    pub(super) troubled: AtomicBool,
    /// The last take was full: more waits in the table.
    take_was_full: AtomicBool,
    /// Events wait in a queue.
    queued: AtomicBool,
    /// Nothing waits any more.
    pub(super) calm: Notify,
}

impl SettlerState {
    /// Whether more outcomes will come soon, so that gathering them pays.
    pub(super) fn is_loaded(&self) -> bool {
        self.take_was_full.load(Ordering::Relaxed) || self.queued.load(Ordering::Relaxed)
    }

    fn note(&self, flag: &AtomicBool, value: bool) {
        flag.store(value, Ordering::Relaxed);
        if !self.is_loaded() {
            self.calm.notify_one();
        }
    }
}

/// What is handed in.
pub(super) enum Entry {
    Settle(Unrecorded),
    Flush(oneshot::Sender<()>),
}

/// An outcome that is to be recorded.
pub(super) struct Unrecorded {
    pub(super) settlement: Settlement,
    /// It was written before, and nobody knows with what effect.
    pub(super) is_repeat: bool,
}

impl Unrecorded {
    /// Whether its row is one of those with these numbers.
    pub(super) fn is_in(&self, numbers: &[i64]) -> bool {
        numbers.contains(&self.settlement.lease.seq)
    }
}

impl SettlerHandle {
    /// Hands in what became of a delivery; waits while the settler is behind.
    pub(crate) async fn settle(&self, settlement: Settlement) {
        match self.reader.as_ref().filter(|_| settlement.lease.token.partition().is_some()) {
            Some(reader) => reader.tell(Message::Ended(settlement)),
            None => self.record(settlement).await,
        }
    }

    /// Hands in what is to be recorded as it is.
    pub(crate) async fn record(&self, settlement: Settlement) {
        let unrecorded = Unrecorded { settlement, is_repeat: false };
        // The settler is gone only when the process is.
        let _ = self.entries.send(Entry::Settle(unrecorded)).await;
    }

    /// Waits until everything that was handed in before is recorded, but for rows that somebody else has locked.
    pub(crate) async fn flush(&self) {
        if let Some(reader) = &self.reader {
            let (passed, done) = oneshot::channel();
            reader.tell(Message::Barrier(passed));
            // What it was told before is handed in now, or it has ended.
            let _ = done.await;
        }
        let (flushed, done) = oneshot::channel();
        if self.entries.send(Entry::Flush(flushed)).await.is_ok() {
            let _ = done.await;
        }
    }

    /// Whether the database could not be written the last time.
    pub(crate) fn is_troubled(&self) -> bool {
        self.state.troubled.load(Ordering::Relaxed)
    }

    /// Says whether the last take was full, so that more waits in the table.
    pub(crate) fn note_take(&self, full: bool) {
        self.state.note(&self.state.take_was_full, full);
    }

    /// Says whether events wait in a queue.
    pub(crate) fn note_queued(&self, queued: bool) {
        self.state.note(&self.state.queued, queued);
    }
}
