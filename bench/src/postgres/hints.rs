//! The barest hint of PostgreSQL: NOTIFY on one connection, heard on another.

use std::time::{Duration, Instant};

use anyhow::Result;
use sqlx::postgres::PgListener;
use sqlx::{Executor, PgPool};

use super::PostgresServer;
use crate::cases::wake_up::Hints;
use crate::database::{Address, Database};
use crate::report::Goal;

/// Both ends of a NOTIFY.
pub(crate) struct BareNotify {
    sender: PgPool,
    listener: PgListener,
}

impl Hints for PostgresServer {
    const GOAL: Option<Goal> = Some(Goal::AtMost(5.0));
    type ByHand = BareNotify;

    async fn by_hand(&self, address: &Address) -> Result<BareNotify> {
        let mut listener = PgListener::connect(address.as_str()).await?;
        listener.listen("bench").await?;
        Ok(BareNotify { sender: Self::pool(address).await?, listener })
    }

    async fn hint(by_hand: &mut BareNotify, _number: usize) -> Result<Duration> {
        let begun = Instant::now();
        by_hand.sender.execute("NOTIFY bench").await?;
        by_hand.listener.recv().await?;
        Ok(begun.elapsed())
    }
}
