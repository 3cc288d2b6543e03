//! The engine in paused time: an hour passes as soon as every task waits.

use std::sync::Arc;
use std::time::Duration;

use pillarbox::{BoxFuture, Clock, Runtime, SeededRandom, Spawn, Timestamp};
use tokio::time::Instant;

/// The time of day at which every paused clock begins: 2026-03-01T12:00:00Z.
pub const NOON: Timestamp = Timestamp::from_micros(1_772_366_400_000_000);

/// A runtime whose time is that of tokio, whose randomness repeats from `seed`, and whose tasks run on the
/// current tokio runtime.
///
/// Use it under `#[tokio::test(start_paused = true)]`, and give its clock to the memory store too.
///
/// # Panics
/// If called outside a tokio runtime.
pub fn runtime(seed: u64) -> Runtime {
    Runtime {
        clock: Arc::new(PausedClock { begun: Instant::now() }),
        random: Arc::new(SeededRandom::new(seed)),
        spawner: Arc::new(CurrentRuntime(tokio::runtime::Handle::current())),
    }
}

/// Tokio's clock, for both kinds of time.
struct PausedClock {
    begun: Instant,
}

impl Clock for PausedClock {
    fn now(&self) -> Duration {
        self.begun.elapsed()
    }

    fn wall(&self) -> Timestamp {
        NOON.saturating_add(self.begun.elapsed())
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(duration))
    }
}

struct CurrentRuntime(tokio::runtime::Handle);

impl Spawn for CurrentRuntime {
    fn spawn(&self, _name: &'static str, task: BoxFuture<'static, ()>) {
        self.0.spawn(task);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn hour_passes_at_once_on_both_clocks() {
        let clock = runtime(1).clock;
        let (now, wall) = (clock.now(), clock.wall());

        clock.sleep(Duration::from_secs(3_600)).await;

        assert_eq!(clock.now() - now, Duration::from_secs(3_600));
        assert_eq!(clock.wall().saturating_since(wall), Duration::from_secs(3_600));
    }

    #[tokio::test]
    async fn seed_repeats() {
        let draw = |seed| {
            let random = runtime(seed).random;
            [random.next_u64(), random.next_u64(), random.next_u64()]
        };

        assert_eq!(draw(17), draw(17));
        assert_ne!(draw(17), draw(18));
    }
}
