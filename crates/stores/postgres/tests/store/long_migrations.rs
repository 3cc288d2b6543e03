//! Migrations that take long, and those that others stand in the way of.

use std::time::Duration;

use pillarbox::store::StoreError;
use sqlx::{Executor, Row};
use tracing::Instrument;

use crate::stage::PostgresStage;
use crate::statements::{begin_to_keep, taken_out};

/// What those who migrate wait for each other at.
const TURN: &str = "SELECT pg_advisory_lock(7308324466019300722)";

/// A time after which every other step would have been given up.
const SHORT: Duration = Duration::from_millis(20);

/// S7: a migration takes as long as it takes: nobody gives it up, and how it goes is logged.
pub(crate) async fn long_migration_is_waited_for(stage: &PostgresStage) {
    begin_to_keep();
    let options = stage.options().prefix("late_").statement_timeout(SHORT).paces(SHORT, SHORT);
    // Its own statements are cut off, so the one that waits must be the migration.
    let store = options.connect().await.unwrap();
    let mut other = stage.connection().await;
    other.execute(TURN).await.unwrap();

    let span = tracing::info_span!("migrating");
    let id = span.id().unwrap().into_u64();
    let migrating = tokio::spawn(async move { store.migrate().await }.instrument(span));
    let mut reports = Vec::new();
    while reports.len() < 10 {
        tokio::time::sleep(SHORT).await;
        assert!(!migrating.is_finished());
        reports.extend(taken_out(|span, text| span == Some(id) && text.contains("the migration goes on")));
    }
    let session: i32 = other.fetch_one("SELECT pg_backend_pid()").await.unwrap().get(0);
    other.execute("SELECT pg_advisory_unlock_all()").await.unwrap();

    assert_eq!(migrating.await.unwrap().unwrap(), 2);
    assert!(reports.iter().any(|report| report.contains(&session.to_string())), "{reports:?}");
}

/// S7: a migration whose session was ended does not wait for ever.
pub(crate) async fn migration_whose_session_ended_is_given_up(stage: &PostgresStage) {
    let store = stage.marked().await;
    let mut other = stage.connection().await;
    other.execute(TURN).await.unwrap();

    let migrating = tokio::spawn(async move { store.migrate().await });
    let ended = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
        WHERE application_name = $1 AND wait_event_type = 'Lock'";
    let mut user = stage.connection().await;
    while sqlx::query(ended).bind(&stage.schema).fetch_one(&mut user).await.unwrap().get::<i64, _>(0) == 0 {}

    let error = migrating.await.unwrap().unwrap_err();
    assert!(error.is_transient(), "{error:?}");
    other.execute("SELECT pg_advisory_unlock_all()").await.unwrap();
}

/// S7: a migration does not make everybody wait behind it: locked out by a transaction of somebody else's, it ends
/// soon, changes nothing and says what to do.
pub(crate) async fn migration_that_is_locked_out_ends_soon(stage: &PostgresStage) {
    let store = stage.options().lock_timeout(SHORT).connect().await.unwrap();
    let mut user = stage.connection().await;
    user.execute("BEGIN; LOCK TABLE outbox_meta").await.unwrap();

    let locked_out = store.migrate().await.unwrap_err();
    user.execute("ROLLBACK").await.unwrap();

    let StoreError::Unavailable { reason, source } = &locked_out else { panic!("{locked_out:?}") };
    assert!(
        reason.contains("nothing was changed; end transactions that use the outbox's tables"),
        "{reason}"
    );
    assert!(reason.contains("`lock_timeout`") && source.is_some(), "{reason}");
    assert_eq!(store.migrate().await.unwrap(), 2);
    store.close().await;
}
