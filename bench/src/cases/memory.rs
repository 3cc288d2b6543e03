//! `memory`: the resident set with a million pending events behind a blocked listener.
//!
//! Each side runs in a process of its own, so that nothing that was measured before counts.

use std::convert::Infallible;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use pillarbox::{Delivery, Outbox};

use crate::database::{AGGREGATE, Address, Database, EVENT, Fill};
use crate::measure::Scale;
use crate::process::{self, Process, Role};
use crate::report::{Goal, Line, grouped};

const PENDING: usize = 1_000_000;
/// What the engine's queue and workers hold by default.
const HELD: usize = 1_004;
/// How long the engine gets to take in all that it can.
const SETTLE_FOR: Duration = Duration::from_secs(3);
const LIMIT_MB: f64 = 150.0;

pub(crate) async fn measure<D: Database>(place: &D, scale: Scale) -> Result<Vec<Line>> {
    let pending = scale.of(PENDING);
    eprintln!("memory: {} pending", grouped(pending as u64));
    let address = place.create("memory").await?;
    D::fill(&address, pending, Fill::Pending).await?;

    let by_hand = resident::<D>(Role::HoldByHand, &address).await?;
    let ours = resident::<D>(Role::Hold, &address).await?;
    Ok(vec![Line::new(D::NAME, "memory", ours, "MB", by_hand).goal(Goal::Below(LIMIT_MB))])
}

/// What another process has resident at most, in megabytes.
async fn resident<D: Database>(role: Role, address: &Address) -> Result<f64> {
    let mut process = Process::start::<D>(role, address)?;
    let bytes = process.number().await?;
    process.end().await?;
    Ok(bytes as f64 / 1e6)
}

/// In the other process: takes in all that the queue can hold.
pub(crate) async fn hold<D: Database>(address: &Address) -> Result<()> {
    let store = D::store(address).await?;
    let blocked = |_: Delivery| std::future::pending::<Result<(), Infallible>>();
    let outbox = Outbox::builder(store).on_aggregate(AGGREGATE, EVENT, blocked).start()?;
    tokio::time::sleep(SETTLE_FOR).await;
    let counts = outbox.counts();
    ensure!(counts.cold_enqueued as usize == HELD, "the queue is not full: {counts:?}");
    process::say(peak()?)
}

/// In the other process: takes in as much by hand.
pub(crate) async fn hold_by_hand<D: Database>(address: &Address) -> Result<()> {
    let pool = D::pool(address).await?;
    let held = D::claim(&mut *pool.acquire().await?, 1, HELD).await?;
    ensure!(held.len() == HELD, "only {} events were there", held.len());
    process::say(peak()?)
}

/// The peak of the resident set, in bytes, as the kernel counts it.
fn peak() -> Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status").context("this case needs Linux")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes = line.and_then(|line| line.trim().strip_suffix("kB")).context("no peak in the status")?;
    Ok(kilobytes.trim().parse::<u64>()? * 1024)
}
