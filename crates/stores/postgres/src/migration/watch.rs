//! Looking after one who migrates.

use tokio::time::Instant;

use crate::lane::Manner;
use crate::store::Inner;

/// Whom a session waits for; and of an index that it builds, the phase, the blocks that are done, and all blocks.
type Progress = (Vec<i32>, Option<String>, Option<i64>, Option<i64>);

/// Tells how the migration in `session` goes, until that session is gone.
pub(super) async fn watch(inner: &Inner, session: i32) {
    let (began, place) = (Instant::now(), &inner.line.place);
    loop {
        tokio::time::sleep(inner.line.watch_every).await;
        let seconds = began.elapsed().as_secs();
        match look(inner, session).await {
            Ok(Some((waits_for, phase, done, total))) => tracing::info!(
                database = %place, session, seconds, ?waits_for, phase, done, total, "the migration goes on"
            ),
            Ok(None) => return,
            Err(error) => {
                tracing::warn!(database = %place, session, seconds, %error, "nobody can see whether the migration goes on");
            }
        }
    }
}

async fn look(inner: &Inner, session: i32) -> Result<Option<Progress>, pillarbox::store::StoreError> {
    let look = inner.hot.run(&inner.line, Manner::Apart, |connection| {
        let look = sqlx::query_as(include_str!("progress.sql")).persistent(false);
        Box::pin(look.bind(session).fetch_optional(connection))
    });
    look.await
}
