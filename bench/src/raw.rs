//! The loop that a careful engineer would write by hand: the limit that draining is measured against.

use anyhow::{Result, ensure};
use sqlx::Pool;

use crate::database::{Connection, Database};

/// How many events the loop takes and settles at a time.
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
