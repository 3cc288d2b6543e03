//! A future that is dropped half-way leaves no transaction open and no connection lost.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use crate::orders::{Orders, claim, order_placed, take, write};
use pillarbox::store::{Administration, DoneRows, EventStore, Outcome, Settlement, TxStore};
use pillarbox_sqlite::SqliteStore;

/// More often than any of these futures is polled.
const MOST_POLLS: usize = 12;

/// Polls `future` at most `polls` times and drops it then.
async fn dropped_after<T>(polls: usize, future: impl Future<Output = T>) -> Option<T> {
    let mut future = pin!(future);
    let mut left = polls;
    poll_fn(|context| {
        if left == 0 {
            return Poll::Ready(None);
        }
        left -= 1;
        match future.as_mut().poll(context) {
            Poll::Ready(value) => Poll::Ready(Some(value)),
            Poll::Pending if left == 0 => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

/// A store that would wait for a forgotten transaction longer than anybody wants to.
async fn impatient(orders: &Orders) -> SqliteStore {
    orders.store().await;
    let store = orders.options().busy_timeout(Duration::from_secs(5)).max_connections(2).connect();
    store.await.unwrap()
}

/// W5: a beginning that nobody waits for leaves no transaction open.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dropped_begin_leaves_no_transaction() {
    let orders = Orders::new();
    let store = impatient(&orders).await;

    for polls in (0..MOST_POLLS).cycle().take(10 * MOST_POLLS) {
        drop(dropped_after(polls, store.begin()).await);
    }

    write(&store, &[order_placed("order-17")]).await;
    assert_eq!(claim(&store, 10).await.len(), 1);
}

/// W5: an end that nobody waits for ends the transaction all the same, wholly or not at all.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dropped_commit_or_rollback_ends_the_transaction() {
    let orders = Orders::new();
    let store = impatient(&orders).await;
    let mut committed = 0;

    for polls in (0..MOST_POLLS).cycle().take(10 * MOST_POLLS) {
        let mut tx = store.begin().await.unwrap();
        store.insert(&mut tx, &[order_placed("order-1"), order_placed("order-2")], None).await.unwrap();
        committed += usize::from(dropped_after(polls, SqliteStore::commit(tx)).await.is_some());
        let mut tx = store.begin().await.unwrap();
        store.insert(&mut tx, &[order_placed("order-3")], None).await.unwrap();
        dropped_after(polls, SqliteStore::rollback(tx)).await;
    }

    let taken = claim(&store, 1_000).await;
    assert!(taken.len() >= 2 * committed && taken.len().is_multiple_of(2), "{} of {committed}", taken.len());
    assert!(taken.iter().all(|taken| taken.event.as_ref().unwrap().key() != Some("order-3")));
}

/// W5: a write that was cut off leaves a transaction that can be rolled back, by dropping it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dropped_insert_is_rolled_back_with_its_transaction() {
    let orders = Orders::new();
    let store = impatient(&orders).await;

    for polls in (0..MOST_POLLS).cycle().take(10 * MOST_POLLS) {
        let mut tx = store.begin().await.unwrap();
        dropped_after(polls, store.insert(&mut tx, &[order_placed("order-1")], None)).await;
    }

    write(&store, &[order_placed("order-17")]).await;
    assert_eq!(claim(&store, 10).await.len(), 1);
}

/// D11: a take or a settle that nobody waits for runs to its end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dropped_step_runs_to_its_end() {
    let orders = Orders::new();
    let store = impatient(&orders).await;
    write(&store, &[order_placed("order-17")]).await;
    let taken = claim(&store, 1).await;
    let done = [Settlement { lease: taken[0].lease, outcome: Outcome::Done }];

    dropped_after(1, store.settle(&done, DoneRows::Keep)).await;
    for polls in (0..MOST_POLLS).cycle().take(5 * MOST_POLLS) {
        dropped_after(polls, store.take(take(10))).await;
        dropped_after(polls, store.read_back(pillarbox::store::Token(17), &["a".into()])).await;
        dropped_after(polls, store.stats()).await;
    }

    assert!(store.take(take(10)).await.unwrap().events.is_empty());
    assert_eq!(store.stats().await.unwrap().pending(), 0);
}
