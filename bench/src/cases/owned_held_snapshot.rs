//! `owned-held-snapshot`: owners that read at a steady rate while another connection holds a snapshot open. In between
//! one is restarted, and one dies and another takes over.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use pillarbox::Outbox;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::claimers::Claimer;
use super::held_snapshot::{EVENTS, EVERY, write_on};
use super::owned_instances::balanced;
use crate::database::{Address, Server};
use crate::measure::Scale;
use crate::owned::{self, Owned};
use crate::process::Role;
use crate::report::{Goal, Line, grouped};

/// Rates are taken over so long, so many times.
const MARK: (Duration, Duration) = (Duration::from_secs(30), Duration::from_secs(2));
const MARKS: (usize, usize) = (10, 5);
/// Longer than what is left at the end may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// More events are done, or a process is gone that should not be.
type Counts = mpsc::UnboundedSender<Result<u64>>;

pub(crate) async fn measure<D: Server + Owned>(place: &D, scale: Scale) -> Result<Vec<Line>> {
    let (mark, marks) = (scale.pick(MARK.0, MARK.1), scale.pick(MARKS.0, MARKS.1));
    let offered = EVENTS as f64 / EVERY.as_secs_f64();
    eprintln!("owned-held-snapshot: {} events/s for {:?}", grouped(offered as u64), mark * marks as u32);

    let address = owned::create(place, "owned-held").await?;
    let snapshot = D::snapshot(&address).await?;
    let before = D::pages(&address).await?;
    let steady = steady::<D>(&address, mark, marks).await?;
    let after = D::pages(&address).await?;
    snapshot.rollback().await?;

    let mut lines = Vec::new();
    for (index, (done, written)) in steady.rates.into_iter().enumerate() {
        let case = format!("owned-held-snapshot/{}s", mark.as_secs() * (index as u64 + 1));
        lines.push(Line::new(D::NAME, case, done, "events/s", written));
    }
    let left = steady.left as f64;
    let case = "owned-held-snapshot/left";
    // What is written in a second, for a little is always on its way.
    lines.push(Line::new(D::NAME, case, left, "events", offered).goal(Goal::Below(offered)));
    if let (Some(before), Some(after)) = (before, after) {
        let searches = (after.searches - before.searches) as f64;
        let pages = (after.touched - before.touched) as f64 / searches;
        let line = Line::new(D::NAME, "owned-held-snapshot/index-pages", pages, "per visit", 10.0);
        lines.push(line.goal(Goal::Below(10.0)));
    }
    Ok(lines)
}

/// What came of a run.
struct Steady {
    /// Events per second between marks: done, and written, which is less than offered where the server is slow.
    rates: Vec<(f64, f64)>,
    /// Events that were written and not done at its end.
    left: u64,
}

/// Lets owners read while events are written all the time.
async fn steady<D: Server + Owned>(address: &Address, mark: Duration, marks: usize) -> Result<Steady> {
    let writer = Outbox::builder(D::store(address).await?).writer_only().start()?;
    let written = Arc::new(AtomicU64::new(0));
    let (counts, mut counted) = mpsc::unbounded_channel();
    let owner = Owner::start::<D>(address, &counts).await?;
    let playing = tokio::spawn(play::<D>(address.clone(), owner, counts, mark * (marks / 3) as u32));
    let rates = {
        let counting = rates(&mut counted, &written, mark, marks);
        tokio::select! {
            rates = counting => rates?,
            failed = write_on::<D>(&writer, &written) => return Err(failed),
        }
    };
    let left = D::fresh(address).await?;
    let owner = playing.await??;
    let begun = Instant::now();
    while D::fresh(address).await? > 0 {
        ensure!(begun.elapsed() < PATIENCE, "not all events that were written are done");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    owner.end().await?;
    D::close(writer.store()).await;
    let done = D::done(address).await?;
    // The last transaction may have been given up in its middle.
    let written = written.load(Ordering::SeqCst);
    ensure!(done >= written, "{written} events were written, and {done} are done");
    Ok(Steady { rates, left })
}

/// Events per second between marks, done and written.
async fn rates(
    counted: &mut mpsc::UnboundedReceiver<Result<u64>>,
    written: &AtomicU64,
    mark: Duration,
    marks: usize,
) -> Result<Vec<(f64, f64)>> {
    let mut rates = Vec::new();
    let mut next = Instant::now() + mark;
    let (mut done, mut before) = (0, 0);
    while rates.len() < marks {
        match tokio::time::timeout_at(next, counted.recv()).await {
            Ok(more) => done += more.context("all owners are gone")??,
            Err(_) => {
                let written = written.load(Ordering::SeqCst);
                let rate = |events: u64| events as f64 / mark.as_secs_f64();
                rates.push((rate(done), rate(written - before)));
                (done, before) = (0, written);
                next += mark;
            }
        }
    }
    Ok(rates)
}

/// After a while restarts the owner, after as long again lets another take over, and returns the one that is left.
async fn play<D: Owned>(address: Address, owner: Owner, counts: Counts, pause: Duration) -> Result<Owner> {
    tokio::time::sleep(pause).await;
    owner.end().await?;
    let owner = Owner::start::<D>(&address, &counts).await?;
    tokio::time::sleep(pause).await;
    let heir = Owner::start::<D>(&address, &counts).await?;
    balanced::<D>(&address, 2).await?;
    owner.kill();
    Ok(heir)
}

/// A process that owns partitions.
struct Owner {
    running: JoinHandle<Result<u64>>,
    end: watch::Sender<bool>,
}

impl Owner {
    async fn start<D: Owned>(address: &Address, counts: &Counts) -> Result<Self> {
        let claimer = Claimer::start::<D>(Role::Own, address).await?;
        let (end, ended) = watch::channel(false);
        Ok(Self { running: tokio::spawn(claimer.run(counts.clone(), ended)), end })
    }

    async fn end(self) -> Result<()> {
        self.end.send(true)?;
        self.running.await??;
        Ok(())
    }

    /// Ends it without a word.
    fn kill(self) {
        self.running.abort();
    }
}
