//! `write`: a business transaction with our write, with a hand-written INSERT of the row, and with neither.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Result;
use pillarbox::Outbox;
use pillarbox_sqlite::SqliteStore;
use sqlx::{SqliteConnection, SqlitePool};

use crate::database;
use crate::measure::{Scale, median, micros};
use crate::raw;
use crate::report::{Goal, Line, grouped};

const TRANSACTIONS: usize = 10_000;

pub(crate) async fn measure(dir: &Path, scale: Scale) -> Result<Vec<Line>> {
    let transactions = scale.of(TRANSACTIONS);
    eprintln!("write: {} transactions of each kind", grouped(transactions as u64));
    let paths = ["ours", "by-hand", "none"].map(|kind| dir.join(format!("write-{kind}.db")));
    for path in &paths {
        database::create(path).await?;
        orders(path).await?;
    }
    let [ours, by_hand, none] = &paths;
    let outbox = Outbox::builder(database::store(ours).await?).writer_only().start()?;
    let (by_hand, none) = (database::raw_pool(by_hand).await?, database::raw_pool(none).await?);

    let mut samples: [Vec<f64>; 3] = Default::default();
    for number in 0..transactions {
        // Whoever follows the other may find the disk busier: they take turns in that too.
        for turn in 0..3 {
            let kind = (number + turn) % 3;
            let took = match kind {
                0 => with_our_write(&outbox, number).await?,
                1 => with_insert(&by_hand, number).await?,
                _ => with_neither(&none, number).await?,
            };
            samples[kind].push(micros(took));
        }
    }
    let [ours, by_hand, none] = samples.map(|mut samples| median(&mut samples));
    Ok(vec![
        Line::new("sqlite", "write", ours, "µs", by_hand).goal(Goal::AtMost(1.15)),
        Line::new("sqlite", "write/against-none", ours, "µs", none),
    ])
}

async fn with_our_write(outbox: &Outbox<SqliteStore>, number: usize) -> Result<Duration> {
    let begun = Instant::now();
    let mut tx = outbox.begin().await?;
    place_order(&mut tx, number).await?;
    outbox.write(&mut tx, database::order_placed(number)?).await?;
    tx.commit().await?;
    Ok(begun.elapsed())
}

async fn with_insert(pool: &SqlitePool, number: usize) -> Result<Duration> {
    let begun = Instant::now();
    let mut tx = raw::begin(pool).await?;
    place_order(&mut tx, number).await?;
    raw::insert(&mut tx, number).await?;
    tx.commit().await?;
    Ok(begun.elapsed())
}

async fn with_neither(pool: &SqlitePool, number: usize) -> Result<Duration> {
    let begun = Instant::now();
    let mut tx = raw::begin(pool).await?;
    place_order(&mut tx, number).await?;
    tx.commit().await?;
    Ok(begun.elapsed())
}

async fn orders(path: &Path) -> Result<()> {
    let pool = database::raw_pool(path).await?;
    sqlx::query("CREATE TABLE orders (id TEXT PRIMARY KEY, total INTEGER NOT NULL)").execute(&pool).await?;
    pool.close().await;
    Ok(())
}

/// The business of the business transaction.
async fn place_order(connection: &mut SqliteConnection, number: usize) -> Result<()> {
    sqlx::query("INSERT INTO orders (id, total) VALUES (?, ?)")
        .bind(format!("order-{number}"))
        .bind(129_900)
        .execute(connection)
        .await?;
    Ok(())
}
