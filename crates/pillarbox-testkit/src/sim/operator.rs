//! The weather over owned partitions: the clock, and an operator who does what operators can do.

use std::sync::Arc;
use std::time::Duration;

use pillarbox::Clock;
use pillarbox::store::{Administration, Ownership, Page, Purge, Selection, StoredEvent};

use super::rng::Rng;
use super::world::World;
use crate::ledger::Cause;

/// The database's clock goes back a little now and then, for as long as it is awaited.
pub(super) async fn steps(world: Arc<World>) {
    let rng = world.beside.fork();
    while world.options.owned.is_some_and(|owned| owned.has_steps) {
        tokio::time::sleep(rng.millis(100, 3_000)).await;
        let millis = rng.between(1, 1_500);
        world.note(format_args!("the database's clock goes back by {millis} ms"));
        world.cover("clock steps", 1);
        world.clock.step_back(millis);
    }
}

/// Clocks jump, and an operator is at work, for as long as it is awaited.
pub(super) async fn weather(world: Arc<World>) {
    let rng = world.rng.fork();
    let Some(owned) = world.options.owned else { return };
    loop {
        tokio::time::sleep(rng.millis(300, 5_000)).await;
        if owned.has_jumps && rng.chance(200) {
            let far = if rng.chance(100) { 2 * 3_600_000 } else { 8_000 };
            let millis = rng.below(2 * far) as i64 - far as i64;
            world.note(format_args!("the database's clock jumps by {millis} ms"));
            world.cover("clock jumps", 1);
            world.clock.jump(millis);
        }
        if owned.has_operator {
            world.operate(&rng).await;
        }
    }
}

impl World {
    async fn operate(&self, rng: &Rng) {
        match rng.below(8) {
            0 | 1 => {
                for row in self.dead(2).await {
                    self.replay(&row).await;
                }
            }
            2 => {
                for row in self.dead(1).await {
                    self.discard(&row).await;
                }
            }
            3 => self.skip_any().await,
            4 => self.purge(rng).await,
            _ => {}
        }
    }

    async fn dead(&self, limit: usize) -> Vec<StoredEvent> {
        // The memory store cannot fail.
        self.db.dead(Page { after: 0, limit }).await.unwrap_or_default()
    }

    /// Frees a key that is parked, in one of the three ways; false if none is.
    pub(super) async fn free_a_key(&self, rng: &Rng) -> bool {
        let Some(dead) = self.parked().values().next().cloned() else { return false };
        let row = self.db.find(&dead).await.ok().flatten();
        match (rng.below(3), row) {
            (0, Some(row)) => self.replay(&row).await,
            (1, Some(row)) => self.discard(&row).await,
            _ => self.skip_any().await,
        }
        true
    }

    /// Frees the key that is parked for this event, if one is.
    fn unpark(&self, event_id: &str) -> bool {
        let Some(key) = self.ledger.key_of(event_id) else { return false };
        let is_parked = self.parked().get(&key).is_some_and(|dead| dead == event_id);
        if is_parked {
            self.parked().remove(&key);
            self.resumed_keys().insert(key);
        }
        is_parked
    }

    async fn replay(&self, row: &StoredEvent) {
        let id = &row.event_id;
        self.note(format_args!("an operator replays {id}"));
        self.cover("replays", 1);
        let holds_its_key = self.unpark(id);
        self.cover("replays of what a key is parked for", u64::from(holds_its_key));
        self.ledger.explain(id, Cause::Replayed);
        self.ledger.replayed(id, holds_its_key);
        self.model().replayed(id, self.clock.wall());
        self.note_replay(id);
        let _ = self.db.replay(&Selection::Ids(vec![id.clone()])).await;
    }

    async fn discard(&self, row: &StoredEvent) {
        let id = &row.event_id;
        self.note(format_args!("an operator discards {id}"));
        self.cover("discards", 1);
        self.unpark(id);
        self.discarded().insert(id.clone());
        let _ = self.db.discard(&Selection::Ids(vec![id.clone()])).await;
    }

    async fn skip_any(&self) {
        let Some((key, dead)) = self.parked().pop_first() else { return };
        self.note(format_args!("an operator skips {dead} for {key}"));
        self.cover("skips", 1);
        self.resumed_keys().insert(key.clone());
        let skipped = self.db.skip(&[key]).await.unwrap_or_default();
        if skipped != 1 {
            self.violation(format!("{skipped} keys were skipped, not the one that is parked for {dead}"));
        }
    }

    async fn purge(&self, rng: &Rng) {
        let dead_too = rng.chance(500);
        let before = self.dead(usize::MAX).await;
        let purge = Purge { older_than: Duration::from_secs(5), limit: 100, after: 0, dead_too };
        let deleted = self.db.purge(purge).await.map_or(0, |purged| purged.deleted);
        let after: Vec<i64> = self.dead(usize::MAX).await.iter().map(|row| row.seq).collect();
        self.note(format_args!("an operator purges {deleted}"));
        self.cover("purged events", deleted);
        for row in before.into_iter().filter(|row| !after.contains(&row.seq)) {
            if self.parked().values().any(|dead| *dead == row.event_id) {
                self.violation(format!("{} was purged though its key is parked for it", row.event_id));
            }
            self.discarded().insert(row.event_id);
        }
    }
}
