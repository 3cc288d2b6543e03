//! `claimers`: 1, 4 and 8 processes that drain the same outbox at once, ours and by hand.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use tokio::sync::mpsc;

use super::drain::drainer;
use crate::database::{Address, Database, Fill, Server};
use crate::measure::{Deliveries, Scale, median, typical_round};
use crate::process::{self, Process, Role};
use crate::raw;
use crate::report::{Goal, Line, grouped};

const EVENTS: usize = 60_000;
const EVENTS_QUICK: usize = 20_000;
const PROCESSES: [usize; 3] = [1, 4, 8];
const PROCESSES_QUICK: [usize; 2] = [1, 8];
const ROUNDS: usize = 5;
const ROUNDS_QUICK: usize = 3;
/// One event of so many is drained before the clock starts: until then connections are opened and queues filled.
const WARM_UP: usize = 4;
/// What eight processes hold in their queues. The clock stops when so many are left: from there on some find nothing
/// to claim, and with fewer left than this the claims of what is counted would lie before the start of the clock.
const HELD: usize = 8 * 1_000;
/// How long a claimer waits when it found nothing.
const IDLE_FOR: Duration = Duration::from_millis(10);

/// Events per second of so many processes, by us and by hand, in each round.
type Rates = (usize, [Vec<f64>; 2]);
const OURS: usize = 0;
const BY_HAND: usize = 1;

pub(crate) async fn measure<D: Server>(place: &D, scale: Scale) -> Result<Vec<Line>> {
    let (events, rounds) = (scale.pick(EVENTS, EVENTS_QUICK), scale.pick(ROUNDS, ROUNDS_QUICK));
    let processes = scale.pick(&PROCESSES[..], &PROCESSES_QUICK);
    let shown = processes.iter().map(usize::to_string).collect::<Vec<_>>().join(", ");
    eprintln!("claimers: {shown} processes, {} pending, {rounds} rounds", grouped(events as u64));

    let mut rates: Vec<Rates> = processes.iter().map(|processes| (*processes, Default::default())).collect();
    for round in 0..rounds {
        for turn in 0..2 * rates.len() {
            let turn = (turn + round) % (2 * rates.len());
            let (processes, [ours, by_hand]) = &mut rates[turn / 2];
            let (role, rates) =
                if turn.is_multiple_of(2) { (Role::Claim, ours) } else { (Role::ClaimByHand, by_hand) };
            let address = place.create("claimers").await?;
            D::fill(&address, events, Fill::Pending).await?;
            rates.push(rate_of::<D>(role, *processes, &address, events).await?);
        }
    }
    Ok(lines::<D>(rates))
}

fn lines<D: Database>(rates: Vec<Rates>) -> Vec<Line> {
    let mut lines = Vec::new();
    for (processes, [ours, by_hand]) in &rates {
        let (mut ours, mut by_hand) = (ours.clone(), by_hand.clone());
        let case = format!("claimers/{processes}");
        lines.push(Line::new(D::NAME, case, median(&mut ours), "events/s", median(&mut by_hand)));
    }
    if let [(one, alone), .., (all, together)] = &rates[..] {
        let line = |name: &str, kind: usize| {
            let (together, alone) = typical_round(&together[kind], &alone[kind]);
            Line::new(D::NAME, format!("{name}/{all}-against-{one}"), together, "events/s", alone)
        };
        lines.push(line("claimers", OURS).goal(Goal::AtLeast(0.9)));
        lines.push(line("claimers-by-hand", BY_HAND));
    }
    lines
}

/// Events per second that `processes` processes come to together, with `events` pending. All are delivered and
/// settled by exactly one of them.
async fn rate_of<D: Server>(role: Role, processes: usize, address: &Address, events: usize) -> Result<f64> {
    let mut claimers = Vec::new();
    for _ in 0..processes {
        claimers.push(Claimer::start::<D>(role, address).await?);
    }
    let rate = rate_from(claimers, events, async { Ok(()) }).await?;
    let once = D::taken_once(address).await?;
    ensure!(once == events as u64, "only {once} of {events} events were taken by one process alone");
    Ok(rate)
}

/// Events per second that these come to together, once they run and `begun` is through. All `events` are delivered
/// once.
pub(crate) async fn rate_from(
    claimers: Vec<Claimer>,
    events: usize,
    begun: impl Future<Output = Result<()>>,
) -> Result<f64> {
    let (counts, mut counted) = mpsc::unbounded_channel();
    let mut running = Vec::new();
    let (end, ended) = tokio::sync::watch::channel(false);
    for claimer in claimers {
        running.push(tokio::spawn(claimer.run(counts.clone(), ended.clone())));
    }
    begun.await?;
    let mut done = 0;
    let mut reach = async |count: usize| {
        while done < count as u64 {
            done += counted.recv().await.context("a claimer is gone")??;
        }
        anyhow::Ok((done, Instant::now()))
    };
    let (before, begun_at) = reach(events / WARM_UP).await?;
    let (after, ended_at) = reach(events - HELD).await?;
    reach(events).await?;
    end.send(true)?;
    let mut total = 0;
    for claimer in running {
        total += claimer.await??;
    }
    ensure!(total == events as u64, "{total} deliveries of {events} events: some came twice");
    Ok((after - before) as f64 / (ended_at - begun_at).as_secs_f64())
}

/// A process that takes and settles until it is told to end.
pub(crate) struct Claimer {
    process: Process,
    done: u64,
}

impl Claimer {
    /// Starts it and waits until it is connected; [`go`](Self::go) lets it begin.
    pub(crate) async fn start<D: Database>(role: Role, address: &Address) -> Result<Self> {
        let mut process = Process::start::<D>(role, address)?;
        process.number().await?;
        Ok(Self { process, done: 0 })
    }

    pub(crate) async fn go(&mut self) -> Result<()> {
        self.process.go().await
    }

    /// Waits until more events are done, and says how many more; may be dropped before.
    pub(crate) async fn more(&mut self) -> Result<u64> {
        let done = self.process.number().await?;
        let more = done - self.done;
        self.done = done;
        Ok(more)
    }

    /// Ends it, and says how many events are done in all.
    pub(crate) async fn end(self) -> Result<u64> {
        self.process.end().await?.context("the claimer did not say how many events are done")
    }

    /// Lets it begin, and passes on how many more events are done, until it is to end; says how many that were in all.
    pub(crate) async fn run(
        mut self,
        counts: mpsc::UnboundedSender<Result<u64>>,
        mut ended: tokio::sync::watch::Receiver<bool>,
    ) -> Result<u64> {
        self.go().await?;
        loop {
            tokio::select! {
                more = self.more() => counts.send(more)?,
                _ = ended.changed() => return self.end().await,
            }
        }
    }
}

/// In the other process: an outbox.
pub(crate) async fn claim<D: Database>(address: &Address) -> Result<()> {
    let deliveries = Deliveries::default();
    let outbox = drainer(D::store(address).await?, &deliveries).poll_every(IDLE_FOR);
    process::ready().await?;
    let outbox = outbox.start()?;
    let counting = deliveries.clone();
    process::say_changes(move || counting.recorded(), outbox.close()).await
}

/// In the other process: the loop by hand.
pub(crate) async fn claim_by_hand<D: Database>(address: &Address) -> Result<()> {
    let pool = D::pool(address).await?;
    let mut connection = pool.acquire().await?;
    process::ready().await?;
    let done = Arc::new(AtomicU64::new(0));
    let counting = done.clone();
    let working = tokio::spawn(async move {
        // Tokens of different processes must differ.
        let mut token = i64::from(std::process::id()) << 32;
        loop {
            token += 1;
            match raw::turn::<D>(&mut connection, token).await? {
                0 => tokio::time::sleep(IDLE_FOR).await,
                settled => {
                    done.fetch_add(settled, Ordering::SeqCst);
                }
            }
        }
    });
    tokio::select! {
        worked = working => worked?,
        said = process::say_changes(move || counting.load(Ordering::SeqCst), async {}) => said,
    }
}
