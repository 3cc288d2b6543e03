//! What operators ask of the memory store.

use std::collections::BTreeSet;
use std::ops::Bound;

use super::MemoryStore;
use super::row::Row;
use super::table::Table;
use crate::Timestamp;
use crate::mutant::mutant;
use crate::runtime::BoxFuture;
use crate::store::{
    Administration, Census, Mode, Outline, Page, PausedRoute, Progress, Purge, Purged, REPLAYED, Revision,
    Selection, Stats, Status, StoreError, StoredEvent,
};

impl Administration for MemoryStore {
    fn stats(&self) -> BoxFuture<'_, Result<Stats, StoreError>> {
        Box::pin(async move { Ok(self.database.table().stats(self.database.now())) })
    }

    fn census(&self) -> BoxFuture<'_, Result<Census, StoreError>> {
        Box::pin(async move { self.database.table().census(self.database.now()) })
    }

    fn highest(&self) -> BoxFuture<'_, Result<i64, StoreError>> {
        Box::pin(async move { Ok(self.database.table().last_seq()) })
    }

    fn find<'a>(&'a self, event_id: &'a str) -> BoxFuture<'a, Result<Option<StoredEvent>, StoreError>> {
        Box::pin(async move {
            let table = self.database.table();
            Ok(table.seq_of(event_id).and_then(|seq| table.row(seq)).map(Row::stored))
        })
    }

    fn find_by_aggregate<'a>(
        &'a self,
        aggregate_id: &'a str,
        page: Page,
    ) -> BoxFuture<'a, Result<Vec<StoredEvent>, StoreError>> {
        Box::pin(async move {
            let table = self.database.table();
            Ok(table.of_aggregate(aggregate_id).map_or_else(Vec::new, |seqs| table.page(seqs, page)))
        })
    }

    fn dead(&self, page: Page) -> BoxFuture<'_, Result<Vec<StoredEvent>, StoreError>> {
        Box::pin(async move {
            let table = self.database.table();
            Ok(table.page(table.dead(), page))
        })
    }

    fn replay<'a>(&'a self, selection: &'a Selection) -> BoxFuture<'a, Result<u64, StoreError>> {
        Box::pin(async move { Ok(self.database.table().replay(selection, self.database.now())) })
    }

    fn discard<'a>(&'a self, selection: &'a Selection) -> BoxFuture<'a, Result<Vec<String>, StoreError>> {
        Box::pin(async move {
            let ids = self.database.table().discard(selection);
            for id in &ids {
                tracing::info!(event_id = %id, "discarded a dead event");
            }
            Ok(ids)
        })
    }

    fn progress<'a>(
        &'a self,
        handler: Option<&'a str>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<Progress>, StoreError>> {
        Box::pin(async move { Ok(self.database.table().progress(handler, limit, self.database.now())) })
    }

    fn revise<'a>(&'a self, revisions: &'a [Revision]) -> BoxFuture<'a, Result<Vec<i64>, StoreError>> {
        Box::pin(async move { Ok(self.database.table().revise(revisions, self.database.now())) })
    }

    fn purge(&self, purge: Purge) -> BoxFuture<'_, Result<Purged, StoreError>> {
        Box::pin(async move { Ok(self.database.table().purge(purge, self.database.now())) })
    }

    fn paused_routes(&self) -> BoxFuture<'_, Result<Vec<PausedRoute>, StoreError>> {
        Box::pin(async move { Ok(self.database.table().paused_routes()) })
    }

    fn pause_route<'a>(&'a self, route: &'a str) -> BoxFuture<'a, Result<bool, StoreError>> {
        Box::pin(async move { Ok(self.database.table().pause_route(route, self.database.now())) })
    }

    fn resume_route<'a>(&'a self, route: &'a str) -> BoxFuture<'a, Result<bool, StoreError>> {
        Box::pin(async move { Ok(self.database.table().paused.remove(route).is_some()) })
    }

    fn recall<'a>(&'a self, reason: &'a str, limit: usize) -> BoxFuture<'a, Result<u64, StoreError>> {
        Box::pin(async move { Ok(self.database.table().recall(reason, limit, self.database.now())) })
    }

    fn outlines(&self, page: Page) -> BoxFuture<'_, Result<Vec<Outline>, StoreError>> {
        Box::pin(async move {
            let table = self.database.table();
            let rows = table.rows.range((Bound::Excluded(page.after), Bound::Unbounded));
            Ok(rows.take(page.limit).map(|(_, row)| row.outline()).collect())
        })
    }

    fn outlines_of<'a>(&'a self, numbers: &'a [i64]) -> BoxFuture<'a, Result<Vec<Outline>, StoreError>> {
        Box::pin(async move {
            let (table, numbers) = (self.database.table(), BTreeSet::from_iter(numbers));
            Ok(numbers.into_iter().filter_map(|seq| table.row(*seq)).map(Row::outline).collect())
        })
    }
}

impl Table {
    fn stats(&self, now: Timestamp) -> Stats {
        let oldest = self.pending().map(|row| row.due_at).min();
        Stats {
            new: self.new_rows(),
            retry: self.pending().len() as u64 - self.new_rows(),
            dead: self.dead().len() as u64,
            done_estimate: self.done().len() as u64,
            oldest_due_for: oldest.filter(|&due_at| due_at <= now).map(|due_at| now.saturating_since(due_at)),
        }
    }

    fn page(&self, seqs: &BTreeSet<i64>, page: Page) -> Vec<StoredEvent> {
        let rows = behind(seqs, page.after).filter_map(|seq| self.row(seq));
        rows.take(page.limit).map(Row::stored).collect()
    }

    pub(super) fn replay(&mut self, selection: &Selection, now: Timestamp) -> u64 {
        let selected = self.select(selection);
        for &seq in &selected {
            let stands_apart = self.mode() == Mode::Ownership && !self.unpark(seq);
            self.change(seq, |row| {
                row.status = if mutant!(ReplayBelowTheFloor) { Status::New } else { Status::Retry };
                row.reason = stands_apart.then(|| REPLAYED.to_owned());
                row.attempts = 0;
                row.starts = 0;
                row.due_at = now;
                row.available_at = now;
            });
        }
        selected.len() as u64
    }

    fn discard(&mut self, selection: &Selection) -> Vec<String> {
        let selected = self.select(selection);
        let discarded = selected.into_iter().filter_map(|seq| {
            self.unpark(seq);
            self.remove(seq)
        });
        discarded.map(|row| row.event.id().to_owned()).collect()
    }

    /// The numbers of those selected that are dead, each once.
    fn select(&self, selection: &Selection) -> BTreeSet<i64> {
        match selection {
            Selection::Ids(ids) => {
                let seqs = ids.iter().filter_map(|id| self.seq_of(id));
                seqs.filter(|seq| self.dead().contains(seq)).collect()
            }
            // The range of a set panics when it runs backwards.
            Selection::Numbers { from, to } if from > to => BTreeSet::new(),
            Selection::Numbers { from, to } => self.dead().range(from..=to).copied().collect(),
        }
    }

    fn purge(&mut self, purge: Purge, now: Timestamp) -> Purged {
        let mut looked_at: Vec<i64> = behind(self.done(), purge.after).take(purge.limit).collect();
        if purge.dead_too {
            looked_at.extend(behind(self.dead(), purge.after).take(purge.limit));
            looked_at.sort_unstable();
            looked_at.truncate(purge.limit);
        }
        let next = if looked_at.len() == purge.limit { looked_at.last().copied() } else { None };
        looked_at.retain(|&seq| {
            let since = self.row(seq).map(|row| row.done_at.unwrap_or(row.created_at));
            let is_old = |since| since <= now && now.saturating_since(since) >= purge.older_than;
            since.is_some_and(is_old) && !self.is_parked_for(seq)
        });
        for &seq in &looked_at {
            self.remove(seq);
        }
        Purged { deleted: looked_at.len() as u64, next }
    }
}

fn behind(seqs: &BTreeSet<i64>, after: i64) -> impl Iterator<Item = i64> {
    seqs.range((Bound::Excluded(after), Bound::Unbounded)).copied()
}
