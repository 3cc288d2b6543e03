//! Going through the dead events, a page at a time.

use std::collections::VecDeque;

use pillarbox::store::{Administration, Page, StoredEvent};
use pillarbox_any::AnyStore;

use super::filter::Sieve;

/// Events read at once: payloads come with them, and may be large.
const AT_ONCE: usize = 100;

/// Upwards through the dead events, to the number that was the highest at the beginning: events that die meanwhile, or
/// again, are not met.
pub(super) struct Walk {
    sieve: Sieve,
    after: i64,
    highest: i64,
    found: VecDeque<String>,
    examined: u64,
}

impl Walk {
    /// Begins behind the number `after`.
    pub(super) fn new(sieve: Sieve, after: i64, highest: i64) -> Self {
        Self { sieve, after, highest, found: VecDeque::new(), examined: 0 }
    }

    /// How many were looked at, without those that are still to be handed out.
    pub(super) fn passed(&self) -> u64 {
        self.examined - self.found.len() as u64
    }

    /// Those of the next page that are meant, maybe none; `None` when there are no more pages. Reads at most `most` rows.
    pub(super) async fn page(
        &mut self,
        store: &AnyStore,
        most: usize,
    ) -> anyhow::Result<Option<Vec<StoredEvent>>> {
        if self.after >= self.highest {
            return Ok(None);
        }
        let mut page = store.dead(Page { after: self.after, limit: most.min(AT_ONCE) }).await?;
        page.retain(|stored| stored.seq <= self.highest);
        let Some(last) = page.last() else { return Ok(None) };
        self.after = last.seq;
        self.examined += page.len() as u64;
        page.retain(|stored| self.sieve.takes(stored));
        Ok(Some(page))
    }

    /// The ids of the next that are meant, at most `most`, maybe none; `None` when there are no more.
    pub(super) async fn ids(&mut self, store: &AnyStore, most: usize) -> anyhow::Result<Option<Vec<String>>> {
        if self.found.is_empty() {
            let Some(page) = self.page(store, AT_ONCE).await? else { return Ok(None) };
            self.found = page.into_iter().map(|stored| stored.event_id).collect();
        }
        let most = most.min(self.found.len());
        Ok(Some(self.found.drain(..most).collect()))
    }
}
