//! What is measured: a bare INSERT, writing, delivering, and the time from commit to listener.

use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use indicatif::ProgressBar;
use pillarbox::store::Mode;
use pillarbox::{Delivery, Event, ListenerError, Outbox, OutboxBuilder};
use pillarbox_any::AnyStore;
use tokio::sync::mpsc;

use super::scratch::Scratch;
use crate::interrupt::Interrupt;
use crate::{figure, terminal};

/// What marks the events of a bench.
const EVENT: &str = "PillarboxBench";

/// Bare INSERTs: a fifth of the transactions, within these limits.
const BARE: (u64, u64) = (20, 2_000);
/// Commits from which the time to the listener is taken: a tenth of the events, within these limits.
const COMMITS: (u64, u64) = (10, 1_000);
/// Commits before the first that counts: connections are opened and statements prepared.
const WARM_UP: u64 = 10;

/// How often to look whether events are done, and how long to wait while nothing moves.
const LOOK_EVERY: Duration = Duration::from_millis(1);
const PATIENCE: Duration = Duration::from_secs(60);

/// What the database is to carry.
pub(super) struct Load {
    pub(super) events: u64,
    pub(super) payload_bytes: usize,
    /// Events in one transaction.
    pub(super) batch: u64,
    pub(super) mode: Mode,
    pub(super) ordered: bool,
    pub(super) keys: Option<u64>,
}

/// What was measured.
pub(super) struct Figures {
    pub(super) bare_per_second: f64,
    pub(super) written_per_second: f64,
    pub(super) delivered_per_second: f64,
    /// Of a transaction with a bare INSERT.
    pub(super) bare: Quantiles,
    /// From commit to listener.
    pub(super) hot: Quantiles,
}

/// Half of all samples are below `p50`, all but a hundredth below `p99`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Quantiles {
    pub(super) p50: Duration,
    pub(super) p99: Duration,
}

impl Quantiles {
    fn of(mut samples: Vec<Duration>) -> Self {
        samples.sort_unstable();
        let at = |share: f64| {
            let rank = (samples.len() as f64 * share).ceil() as usize;
            samples.get(rank.saturating_sub(1)).copied().unwrap_or_default()
        };
        Self { p50: at(0.5), p99: at(0.99) }
    }
}

/// Measures it all, one after the other.
pub(super) async fn run(scratch: &Scratch, load: &Load, interrupt: &Interrupt) -> anyhow::Result<Figures> {
    let transactions = (load.events / load.batch / 5).clamp(BARE.0, BARE.1);
    let bare = phase("bare inserts", transactions, interrupt, async |bar| {
        insert_bare(scratch, load, transactions, bar).await
    });
    let bare = bare.await?;
    let written_per_second = written(scratch, load, interrupt).await?;
    let delivered_per_second = delivered(scratch, load, interrupt).await?;
    let hot = hot(scratch, load, interrupt).await?;
    let rows = transactions * load.batch;
    let total: Duration = bare.iter().sum();
    Ok(Figures {
        bare_per_second: rows as f64 / total.as_secs_f64().max(1e-9),
        written_per_second,
        delivered_per_second,
        bare: Quantiles::of(bare),
        hot,
    })
}

/// Work under a bar, until it is done or interrupted.
async fn phase<T>(
    doing: &str,
    length: u64,
    interrupt: &Interrupt,
    work: impl AsyncFnOnce(&ProgressBar) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let bar = terminal::bar(length, &format!("  {doing:<13} {{wide_bar}} {{percent}} %"));
    let ended = tokio::select! {
        biased;
        () = interrupt.heard() => Err(anyhow!("interrupted; the tables of the bench were dropped")),
        ended = work(&bar) => ended,
    };
    bar.finish_and_clear();
    ended
}

/// How long each of these transactions takes: one INSERT of as many rows as events are written at once.
async fn insert_bare(
    scratch: &Scratch,
    load: &Load,
    transactions: u64,
    bar: &ProgressBar,
) -> anyhow::Result<Vec<Duration>> {
    let (plain, payload) = (scratch.plain(), load.payload());
    let mut samples = Vec::new();
    for transaction in 0..transactions {
        let first = transaction * load.batch;
        let rows: Vec<String> =
            (first..first + load.batch).map(|number| format!("({number}, '{payload}')")).collect();
        let insert = format!("INSERT INTO {plain} (number, payload) VALUES {}", rows.join(", "));
        let begun = Instant::now();
        scratch.store.execute(insert).await?;
        samples.push(begun.elapsed());
        bar.inc(1);
    }
    Ok(samples)
}

/// Events that are written in a second, while nobody delivers.
async fn written(scratch: &Scratch, load: &Load, interrupt: &Interrupt) -> anyhow::Result<f64> {
    let outbox = load.outbox(scratch).writer_only().start()?;
    let writing = phase("writing", load.events, interrupt, async |bar| {
        let begun = Instant::now();
        let mut number = 0;
        while number < load.events {
            let until = (number + load.batch).min(load.events);
            write(&outbox, load, number..until).await?;
            bar.inc(until - number);
            number = until;
        }
        Ok(begun.elapsed())
    });
    let took = writing.await;
    outbox.close().await;
    Ok(load.events as f64 / took?.as_secs_f64())
}

async fn write(outbox: &Outbox<AnyStore>, load: &Load, numbers: std::ops::Range<u64>) -> anyhow::Result<()> {
    let events = numbers.map(|number| load.event(number)).collect::<anyhow::Result<Vec<_>>>()?;
    let mut tx = outbox.begin().await?;
    outbox.write_all(&mut tx, events).await?;
    tx.commit().await?;
    Ok(())
}

/// Events that are taken from the table, delivered to a listener that does nothing, and recorded as done, in a second.
async fn delivered(scratch: &Scratch, load: &Load, interrupt: &Interrupt) -> anyhow::Result<f64> {
    let begun = Instant::now();
    let nobody = |_: Delivery| async { Ok::<_, ListenerError>(()) };
    let outbox = load.outbox(scratch).poller_only().on(EVENT, nobody).start()?;
    let draining = phase("delivering", load.events, interrupt, async |bar| {
        let reached = done(&outbox, load.events, |done| bar.set_position(done)).await;
        reached.map(|()| begun.elapsed())
    });
    let took = draining.await;
    outbox.close().await;
    Ok(load.events as f64 / took?.as_secs_f64())
}

/// The time from the return of a commit to the call of the listener, where events are committed one by one.
async fn hot(scratch: &Scratch, load: &Load, interrupt: &Interrupt) -> anyhow::Result<Quantiles> {
    let (calls, mut called) = mpsc::unbounded_channel();
    let listener = move |_: Delivery| {
        let sent = calls.send(Instant::now());
        async move { sent.map_err(ListenerError::from) }
    };
    let outbox = load.outbox(scratch).on(EVENT, listener).start()?;
    let commits = (load.events / 10).clamp(COMMITS.0, COMMITS.1);
    let timing = phase("one by one", WARM_UP + commits, interrupt, async |bar| {
        let mut samples = Vec::new();
        for number in 0..WARM_UP + commits {
            write(&outbox, load, number..number + 1).await?;
            let committed = Instant::now();
            let call = tokio::time::timeout(PATIENCE, called.recv()).await;
            let call = call.with_context(stuck)?.context("the listener is gone")?;
            // The outcome is recorded before anything else is measured.
            done(&outbox, number + 1, |_| ()).await?;
            if number >= WARM_UP {
                samples.push(call.saturating_duration_since(committed));
            }
            bar.inc(1);
        }
        Ok(Quantiles::of(samples))
    });
    let hot = timing.await;
    outbox.close().await;
    hot
}

/// Waits until so many events are recorded as done.
async fn done(outbox: &Outbox<AnyStore>, events: u64, show: impl Fn(u64)) -> anyhow::Result<()> {
    let (mut last, mut since) = (0, Instant::now());
    loop {
        let counts = outbox.counts();
        anyhow::ensure!(counts.dead == 0, "an event of the bench is dead; see the log");
        show(counts.done);
        if counts.done >= events {
            return Ok(());
        }
        if counts.done != last {
            (last, since) = (counts.done, Instant::now());
        }
        anyhow::ensure!(since.elapsed() < PATIENCE, stuck());
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

fn stuck() -> String {
    format!("no event of the bench was delivered for {}; see the log", figure::time(PATIENCE))
}

impl Load {
    fn outbox(&self, scratch: &Scratch) -> OutboxBuilder<AnyStore> {
        let outbox = Outbox::builder(scratch.store.clone()).mode(self.mode);
        if self.ordered { outbox.ordered() } else { outbox }
    }

    fn event(&self, number: u64) -> anyhow::Result<Event> {
        let event = Event::builder(EVENT).json_text(self.payload());
        let event = match self.keys {
            Some(keys) => event.key(format!("key-{}", number % keys)),
            None => event,
        };
        Ok(event.build()?)
    }

    /// A JSON text of the size that is wanted.
    fn payload(&self) -> String {
        format!("\"{}\"", "x".repeat(self.payload_bytes.saturating_sub(2)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_samples() {
        let of = |millis: &[u64]| Quantiles::of(millis.iter().copied().map(Duration::from_millis).collect());
        let quantiles =
            |p50, p99| Quantiles { p50: Duration::from_millis(p50), p99: Duration::from_millis(p99) };

        assert_eq!(of(&(1..=100).rev().collect::<Vec<_>>()), quantiles(50, 99));
        assert_eq!(of(&[7]), quantiles(7, 7));
    }

    #[test]
    fn payloads_have_the_size_that_is_wanted() {
        let mut load = Load {
            events: 10,
            payload_bytes: 2,
            batch: 1,
            mode: Mode::Claims,
            ordered: false,
            keys: Some(3),
        };
        assert_eq!(load.payload(), "\"\"");
        load.payload_bytes = 256;
        assert_eq!(load.payload().len(), 256);
        assert_eq!(load.event(7).unwrap().key(), Some("key-1"));
    }
}
