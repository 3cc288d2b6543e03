//! The loops that a careful engineer would write by hand: the limits that draining is measured against.

use anyhow::{Result, ensure};
use pillarbox::store::DoneRows;
use pillarbox::{PARTITIONS, partition_of};
use sqlx::Pool;

use crate::database::{Connection, Database};
use crate::owned::Owned;

/// How many events a loop takes and settles at a time.
pub(crate) const BATCH: usize = 100;

/// Claims, delivers to nobody, and settles, until `count` events are done.
pub(crate) async fn drain<D: Database>(pool: &Pool<D::Driver>, count: usize) -> Result<()> {
    let mut connection = pool.acquire().await?;
    let (mut done, mut token) = (0, 0);
    while done < count as u64 {
        token += 1;
        let settled = turn::<D>(&mut connection, token).await?;
        ensure!(settled > 0, "only {done} of {count} events were there");
        done += settled;
    }
    Ok(())
}

/// One turn of the loop; says how many events are done by it.
pub(crate) async fn turn<D: Database>(connection: &mut Connection<D>, token: i64) -> Result<u64> {
    let claimed = D::claim(connection, token, BATCH).await?;
    if claimed.is_empty() {
        return Ok(0);
    }
    D::settle(connection, token, &claimed).await
}

/// Owns all partitions, and reads and finishes them in turn, in runs, until `count` events are done.
pub(crate) async fn drain_owned<D: Owned>(
    pool: &Pool<D::Driver>,
    count: usize,
    run: usize,
    done: DoneRows,
) -> Result<()> {
    let mut connection = pool.acquire().await?;
    D::own(&mut connection).await?;
    let mut floors = [0; PARTITIONS];
    let mut finished = 0;
    while finished < count as u64 {
        let before = finished;
        for (partition, floor) in (0..=u8::MAX).zip(&mut floors) {
            finished += visit::<D>(&mut connection, partition, floor, run, done).await?;
        }
        ensure!(finished > before, "only {finished} of {count} events were there");
    }
    Ok(())
}

/// Reads and finishes one event of a key at a time, until `count` are done.
pub(crate) async fn drain_key<D: Owned>(pool: &Pool<D::Driver>, key: &str, count: usize) -> Result<()> {
    let mut connection = pool.acquire().await?;
    D::own(&mut connection).await?;
    let mut floor = 0;
    for number in 0..count {
        let finished = visit::<D>(&mut connection, partition_of(key), &mut floor, 1, DoneRows::Keep).await?;
        ensure!(finished == 1, "only {number} of {count} events were there");
    }
    Ok(())
}

/// One run of a partition; says how many events are done by it.
async fn visit<D: Owned>(
    connection: &mut Connection<D>,
    partition: u8,
    floor: &mut i64,
    limit: usize,
    done: DoneRows,
) -> Result<u64> {
    let run = D::read_run(connection, partition, *floor, limit).await?;
    let Some((last, ..)) = run.last() else { return Ok(0) };
    *floor = *last;
    D::finish(connection, partition, &run, done).await
}
