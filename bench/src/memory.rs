//! `memory`: the resident set with a million pending events behind a blocked listener.
//!
//! Each side runs in a process of its own, so that nothing that was measured before counts.

use std::convert::Infallible;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::ValueEnum;
use pillarbox::{Delivery, Outbox};

use crate::database::{self, AGGREGATE, EVENT, Fill};
use crate::measure::Scale;
use crate::raw;
use crate::report::{Goal, Line, grouped};

const PENDING: usize = 1_000_000;
/// What the engine's queue and workers hold by default.
const HELD: usize = 1_004;
/// How long the engine gets to take in all that it can.
const SETTLE_FOR: Duration = Duration::from_secs(3);
const LIMIT_MB: f64 = 150.0;

/// Who holds the events.
#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum Side {
    Ours,
    ByHand,
}

pub(crate) async fn measure(dir: &Path, scale: Scale) -> Result<Vec<Line>> {
    let pending = scale.of(PENDING);
    eprintln!("memory: {} pending", grouped(pending as u64));
    let path = dir.join("memory.db");
    database::create(&path).await?;
    database::fill(&path, pending, Fill::Pending).await?;

    let by_hand = in_child("by-hand", &path)?;
    let ours = in_child("ours", &path)?;
    Ok(vec![Line::new("sqlite", "memory", ours, "MB", by_hand).goal(Goal::Below(LIMIT_MB))])
}

fn in_child(side: &str, path: &Path) -> Result<f64> {
    let program = std::env::current_exe().context("this program cannot be found to run it again")?;
    let output = std::process::Command::new(program)
        .args(["resident", side])
        .arg(path)
        .stderr(Stdio::inherit())
        .output()
        .context("the child process could not be started")?;
    ensure!(output.status.success(), "the child process failed: {}", output.status);
    let bytes: u64 =
        String::from_utf8(output.stdout)?.trim().parse().context("the child printed no number")?;
    Ok(bytes as f64 / 1e6)
}

/// The most that was resident at any time in this process, after `side` has taken in what it can hold.
pub(crate) async fn resident(side: Side, path: &Path) -> Result<u64> {
    match side {
        Side::ByHand => {
            let pool = database::raw_pool(path).await?;
            let held = raw::claim(&mut *pool.acquire().await?, 1, HELD).await?;
            ensure!(held.len() == HELD, "only {} events were there", held.len());
            peak()
        }
        Side::Ours => {
            let store = database::store(path).await?;
            let blocked = |_: Delivery| std::future::pending::<Result<(), Infallible>>();
            let outbox = Outbox::builder(store).on_aggregate(AGGREGATE, EVENT, blocked).start()?;
            tokio::time::sleep(SETTLE_FOR).await;
            let counts = outbox.counts();
            ensure!(counts.cold_enqueued as usize == HELD, "the queue is not full: {counts:?}");
            peak()
        }
    }
}

/// The peak of the resident set, in bytes, as the kernel counts it.
fn peak() -> Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status").context("this case needs Linux")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes = line.and_then(|line| line.trim().strip_suffix("kB")).context("no peak in the status")?;
    Ok(kilobytes.trim().parse::<u64>()? * 1024)
}
