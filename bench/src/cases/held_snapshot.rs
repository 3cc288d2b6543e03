//! `held-snapshot`: draining at a steady rate while another connection holds a snapshot open, so that no dead row
//! version can be removed.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::Result;
use pillarbox::Outbox;
use tokio::time::{Instant, MissedTickBehavior};

use super::claimers::Claimer;
use crate::database::{self, Address, Server};
use crate::measure::Scale;
use crate::process::Role;
use crate::report::{Line, grouped};

/// A transaction with so many events, so often: 2,000 events per second.
pub(crate) const EVENTS: usize = 20;
pub(crate) const EVERY: Duration = Duration::from_millis(10);
/// Rates are taken over so long, so many times.
const MARK: (Duration, Duration) = (Duration::from_secs(30), Duration::from_secs(2));
const MARKS: (usize, usize) = (10, 5);

pub(crate) async fn measure<D: Server>(place: &D, scale: Scale) -> Result<Vec<Line>> {
    let (mark, marks) = (scale.pick(MARK.0, MARK.1), scale.pick(MARKS.0, MARKS.1));
    let offered = EVENTS as u64 * 1_000 / EVERY.as_millis() as u64;
    eprintln!("held-snapshot: {} events/s for {:?}, three times", grouped(offered), mark * marks as u32);

    let free = steady::<D>(&place.create("held-free").await?, Role::Claim, false, mark, marks).await?;
    let held = steady::<D>(&place.create("held").await?, Role::Claim, true, mark, marks).await?;
    let by_hand = place.create("held-by-hand").await?;
    let by_hand = steady::<D>(&by_hand, Role::ClaimByHand, true, mark, marks).await?;

    let mut lines = Vec::new();
    for (name, rates) in [("held-snapshot", held), ("held-snapshot-by-hand", by_hand)] {
        for (index, (rate, free)) in rates.into_iter().zip(&free).enumerate() {
            let case = format!("{name}/{}s", mark.as_secs() * (index as u64 + 1));
            lines.push(Line::new(D::NAME, case, rate, "events/s", *free));
        }
    }
    Ok(lines)
}

/// Events per second between marks, while events are written all the time and a claimer takes them.
async fn steady<D: Server>(
    address: &Address,
    role: Role,
    is_held: bool,
    mark: Duration,
    marks: usize,
) -> Result<Vec<f64>> {
    let snapshot = if is_held { Some(D::snapshot(address).await?) } else { None };
    let writer = Outbox::builder(D::store(address).await?).writer_only().start()?;
    let mut claimer = Claimer::start::<D>(role, address).await?;
    claimer.go().await?;

    let mut counting = tokio::spawn(async move {
        let mut rates = Vec::new();
        let mut next = Instant::now() + mark;
        let (mut done, mut last) = (0, 0);
        while rates.len() < marks {
            match tokio::time::timeout_at(next, claimer.more()).await {
                Ok(more) => done += more?,
                Err(_) => {
                    rates.push((done - last) as f64 / mark.as_secs_f64());
                    last = done;
                    next += mark;
                }
            }
        }
        claimer.end().await?;
        anyhow::Ok(rates)
    });
    let written = AtomicU64::new(0);
    let rates = tokio::select! {
        rates = &mut counting => rates??,
        failed = write_on::<D>(&writer, &written) => return Err(failed),
    };
    if let Some(snapshot) = snapshot {
        snapshot.rollback().await?;
    }
    D::close(writer.store()).await;
    Ok(rates)
}

/// Writes events at the steady rate until it fails, and counts those that are committed. What was late is made up for.
pub(crate) async fn write_on<D: Server>(writer: &Outbox<D::Store>, written: &AtomicU64) -> anyhow::Error {
    let mut ticks = tokio::time::interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
    for number in 0.. {
        ticks.tick().await;
        if let Err(error) = write::<D>(writer, number * EVENTS).await {
            return error;
        }
        written.fetch_add(EVENTS as u64, Ordering::SeqCst);
    }
    unreachable!("there is always a next tick")
}

async fn write<D: Server>(writer: &Outbox<D::Store>, first: usize) -> Result<()> {
    let events = (first..first + EVENTS).map(database::order_placed).collect::<Result<Vec<_>>>()?;
    let mut tx = writer.begin().await?;
    writer.write_all(&mut tx, events).await?;
    tx.commit().await?;
    Ok(())
}
