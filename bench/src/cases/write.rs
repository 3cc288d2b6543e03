//! `write`, `write-ten`: a business transaction with our write, with a hand-written INSERT of the same rows, and
//! with neither.

use std::time::{Duration, Instant};

use anyhow::Result;
use pillarbox::Outbox;
use sqlx::Pool;

use crate::database::{self, Address, Database};
use crate::measure::{Scale, median, micros};
use crate::report::{Goal, Line, grouped};

pub(crate) const TRANSACTIONS: usize = 10_000;
/// Transactions before the first that counts: connections are opened and statements prepared.
const WARM_UP: usize = 20;
const TEN: usize = 10;

pub(crate) async fn measure<D: Database>(place: &D, scale: Scale) -> Result<Vec<Line>> {
    let transactions = scale.of(TRANSACTIONS);
    eprintln!("write: {} transactions of each kind", grouped(transactions as u64));
    let writers = [
        Writer::<D>::ours(D::store(&place.create("write-ours").await?).await?)?,
        Writer::by_hand(&place.create("write-by-hand").await?).await?,
        Writer::neither(&place.create("write-none").await?).await?,
    ];
    let [ours, by_hand, none] = medians(&writers, transactions, 1).await?;
    Ok(vec![
        Line::new(D::NAME, "write", ours, "µs", by_hand).goal(D::GOALS.write),
        Line::new(D::NAME, "write/against-none", ours, "µs", none),
    ])
}

pub(crate) async fn measure_ten<D: Database>(place: &D, scale: Scale) -> Result<Vec<Line>> {
    let transactions = scale.of(TRANSACTIONS);
    eprintln!("write-ten: {} transactions of each kind", grouped(transactions as u64));
    let writers = [
        Writer::<D>::ours(D::store(&place.create("write-ten-ours").await?).await?)?,
        Writer::by_hand(&place.create("write-ten-by-hand").await?).await?,
    ];
    let [ours, by_hand] = medians(&writers, transactions, TEN).await?;
    Ok(vec![Line::new(D::NAME, "write-ten", ours, "µs", by_hand).goal(Goal::AtMost(1.1))])
}

/// What one transaction with `events` events takes each writer, in microseconds.
pub(crate) async fn medians<D: Database, const N: usize>(
    writers: &[Writer<D>; N],
    transactions: usize,
    events: usize,
) -> Result<[f64; N]> {
    let mut samples = [const { Vec::new() }; N];
    for number in 0..WARM_UP + transactions {
        // Whoever follows the other may find the disk busier: they take turns in that too.
        for turn in 0..N {
            let kind = (number + turn) % N;
            let took = writers[kind].transaction(number, events).await?;
            if number >= WARM_UP {
                samples[kind].push(micros(took));
            }
        }
    }
    Ok(samples.map(|mut samples| median(&mut samples)))
}

/// One way to write events beside an order.
pub(crate) enum Writer<D: Database> {
    Ours(Outbox<D::Store>),
    ByHand(Pool<D::Driver>),
    Neither(Pool<D::Driver>),
}

impl<D: Database> Writer<D> {
    /// An outbox that only writes, so that no delivery runs beside what is measured.
    pub(crate) fn ours(store: D::Store) -> Result<Self> {
        Ok(Self::Ours(Outbox::builder(store).writer_only().start()?))
    }

    pub(crate) async fn by_hand(address: &Address) -> Result<Self> {
        Ok(Self::ByHand(D::pool(address).await?))
    }

    async fn neither(address: &Address) -> Result<Self> {
        Ok(Self::Neither(D::pool(address).await?))
    }

    /// How long the transaction with the order `number` and `events` events takes.
    async fn transaction(&self, number: usize, events: usize) -> Result<Duration> {
        let numbers = number * events..(number + 1) * events;
        let begun = Instant::now();
        match self {
            Self::Ours(outbox) => {
                let mut tx = outbox.begin().await?;
                D::place_order(&mut tx, number).await?;
                if events == 1 {
                    outbox.write(&mut tx, database::order_placed(number)?).await?;
                } else {
                    let events = numbers.map(database::order_placed).collect::<Result<Vec<_>>>()?;
                    outbox.write_all(&mut tx, events).await?;
                }
                tx.commit().await?;
            }
            Self::ByHand(pool) => {
                let mut tx = D::begin(pool).await?;
                D::place_order(&mut tx, number).await?;
                D::insert(&mut tx, numbers).await?;
                tx.commit().await?;
            }
            Self::Neither(pool) => {
                let mut tx = D::begin(pool).await?;
                D::place_order(&mut tx, number).await?;
                tx.commit().await?;
            }
        }
        Ok(begun.elapsed())
    }
}
