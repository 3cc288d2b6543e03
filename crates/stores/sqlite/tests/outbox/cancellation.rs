//! Every public future can be dropped at every await: no transaction stays open, no connection is lost.

use std::future::Future;
use std::pin::pin;
use std::task::Poll;

use pillarbox::store::{Administration, CommitError};
use pillarbox::{GLOBAL, MemorySink, Outbox, WriteError};
use pillarbox_sqlite::SqliteStore;

use crate::stage::{SqliteStage, placed};

/// More awaits than any future here has.
const MOST: usize = 200;

/// Completions in a row that are no luck: once, the driver's thread may have been faster than usual.
const ENOUGH: usize = 3;

/// Polls `future` up to `polls` times, each when it asks for it, and drops it then.
async fn cut_after<F: Future>(polls: usize, future: F) -> Option<F::Output> {
    let mut future = Box::pin(future);
    let mut left = polls;
    std::future::poll_fn(move |context| {
        if left == 0 {
            return Poll::Ready(None);
        }
        left -= 1;
        match future.as_mut().poll(context) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending if left == 0 => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

/// An outbox whose pool has one connection: one that is lost, or stays in a transaction, stops everything.
async fn single() -> (SqliteStage, Outbox<SqliteStore>) {
    let stage = SqliteStage::with(|options| options.max_connections(1)).await;
    let sink = MemorySink::new();
    let outbox = stage.builder().on_sink(GLOBAL, "OrderPlaced", sink).start().unwrap();
    (stage, outbox)
}

/// Writes and commits: the one connection is there, and in no transaction.
async fn assert_usable(outbox: &Outbox<SqliteStore>, order: &str) {
    let mut tx = outbox.begin().await.expect("the connection is there, and nobody holds the database");
    outbox.write(&mut tx, placed(order)).await.expect("it can be written");
    tx.commit().await.expect("it can be committed");
    assert!(outbox.store().find(order).await.unwrap().is_some());
}

/// Cuts the future that `make` makes at its first await, its second, and so on until it completes for sure.
async fn cut_everywhere(outbox: &Outbox<SqliteStore>, name: &str, mut make: impl AsyncFnMut(usize) -> bool) {
    let mut completions = 0;
    for polls in 0..MOST {
        let completed = make(polls).await;
        assert_usable(outbox, &format!("{name}-{polls}-after")).await;
        assert!(polls > 0 || !completed, "nothing completes without being polled");
        completions = if completed { completions + 1 } else { 0 };
        if completions == ENOUGH {
            return;
        }
    }
    panic!("{name} did not complete within {MOST} polls");
}

#[tokio::test]
async fn cancelled_begin_leaves_no_transaction() {
    let (_stage, outbox) = single().await;

    cut_everywhere(&outbox, "begin", async |polls| cut_after(polls, outbox.begin()).await.is_some()).await;
}

/// W5: a write that was cancelled half-way cannot be committed, and one that completed can.
#[tokio::test]
async fn cancelled_write_cannot_be_committed() {
    let (stage, outbox) = single().await;

    cut_everywhere(&outbox, "write", async |polls| {
        let order = format!("write-{polls}");
        let mut tx = outbox.begin().await.unwrap();
        let written = cut_after(polls, outbox.write(&mut tx, placed(&order))).await;
        let again = outbox.write(&mut tx, placed(&format!("{order}-again"))).await;
        let committed = tx.commit().await;

        if written.is_none() && polls > 0 {
            assert!(matches!(again, Err(WriteError::Cancelled)), "{again:?}");
            assert!(matches!(committed, Err(CommitError::RolledBack { .. })), "{committed:?}");
        } else {
            committed.unwrap();
        }
        assert_eq!(stage.status(&order).await.is_some(), written.is_some());
        written.is_some()
    })
    .await;
}

#[tokio::test]
async fn cancelled_batch_leaves_no_transaction() {
    let (_stage, outbox) = single().await;

    cut_everywhere(&outbox, "batch", async |polls| {
        let orders = (0..600).map(|number| placed(&format!("batch-{polls}-{number}")));
        let mut tx = outbox.begin().await.unwrap();
        cut_after(polls, outbox.write_all(&mut tx, orders)).await.is_some()
    })
    .await;
}

#[tokio::test]
async fn cancelled_foreign_write_leaves_no_transaction() {
    let (stage, outbox) = single().await;

    cut_everywhere(&outbox, "foreign", async |polls| {
        let mut tx = stage.store.pool().begin_with("BEGIN IMMEDIATE").await.unwrap();
        let event = placed(&format!("foreign-{polls}"));
        let written = cut_after(polls, outbox.write_in(&mut tx, [event])).await.is_some();
        tx.rollback().await.unwrap();
        written
    })
    .await;
}

/// W5: a commit that was begun is carried through, and its events are delivered.
#[tokio::test]
async fn cancelled_commit_is_carried_through() {
    let (stage, outbox) = single().await;

    cut_everywhere(&outbox, "commit", async |polls| {
        let order = format!("commit-{polls}");
        let (called, call) = tokio::sync::oneshot::channel();
        let mut tx = outbox.begin().await.unwrap();
        outbox.write(&mut tx, placed(&order)).await.unwrap();
        tx.after_commit(move || called.send(()).unwrap());
        let before = outbox.counts().hot_enqueued;
        let committed = cut_after(polls, tx.commit()).await.is_some();

        assert_eq!(call.await.is_ok(), polls > 0, "dropped unpolled, it rolls back");
        assert_eq!(outbox.counts().hot_enqueued - before, u64::from(polls > 0), "it goes out from memory");
        assert_usable(&outbox, &format!("{order}-settled")).await;
        assert_eq!(stage.status(&order).await.is_some(), polls > 0);
        committed
    })
    .await;
}

#[tokio::test]
async fn cancelled_rollback_rolls_back() {
    let (stage, outbox) = single().await;

    cut_everywhere(&outbox, "rollback", async |polls| {
        let order = format!("rollback-{polls}");
        let mut tx = outbox.begin().await.unwrap();
        outbox.write(&mut tx, placed(&order)).await.unwrap();
        let rolled_back = cut_after(polls, tx.rollback()).await.is_some();

        assert_eq!(stage.status(&order).await, None);
        rolled_back
    })
    .await;
}

/// W4: an ambient transaction that is cancelled anywhere inside leaves all or nothing.
#[tokio::test]
async fn cancelled_ambient_transaction_leaves_no_transaction() {
    let (_stage, outbox) = single().await;

    cut_everywhere(&outbox, "ambient", async |polls| {
        let body = outbox.transaction(async {
            outbox.current().await.expect("it runs in a transaction").after_commit(|| {});
            outbox.write_current(placed(&format!("ambient-{polls}-1"))).await?;
            outbox.write_current(placed(&format!("ambient-{polls}-2"))).await
        });
        let completed = cut_after(polls, pin!(body)).await.is_some();
        assert_usable(&outbox, &format!("ambient-{polls}-settled")).await;

        let one = outbox.store().find(&format!("ambient-{polls}-1")).await.unwrap().is_some();
        let two = outbox.store().find(&format!("ambient-{polls}-2")).await.unwrap().is_some();
        assert_eq!(one, two, "both or none after {polls} polls");
        completed
    })
    .await;
}

#[tokio::test]
async fn cancelled_poll_leaves_no_transaction() {
    let (_stage, outbox) = single().await;

    cut_everywhere(&outbox, "poll", async |polls| cut_after(polls, outbox.poll()).await.is_some()).await;
}

#[tokio::test]
async fn cancelled_close_leaves_no_transaction() {
    let (_stage, outbox) = single().await;
    assert_usable(&outbox, "before").await;

    cut_everywhere(&outbox, "close", async |polls| cut_after(polls, outbox.close()).await.is_some()).await;
}

#[tokio::test]
async fn cancelled_run_leaves_no_transaction() {
    let (_stage, outbox) = single().await;
    assert_usable(&outbox, "before").await;

    cut_everywhere(&outbox, "run", async |polls| {
        cut_after(polls, outbox.run(std::future::ready(()))).await.is_some()
    })
    .await;
}
