//! A future of a store that is dropped at any await leaves no transaction open and no connection lost, and what it
//! began is carried through or undone.
//!
//! A store's test file implements [`Interrupted`] and hands a fresh one to each case:
//!
//! ```text
//! pillarbox_testkit::cancellations!(Orders::new());
//! ```
//!
//! What is the store's own to promise, as connecting is, is cut by [`cut_everywhere`] in its own tests.

#![expect(clippy::unwrap_used, reason = "cases are tests")]

mod cut;

use std::time::Duration;

use pillarbox::Event;
use pillarbox::store::{
    Administration, DoneRows, EventStore, Outcome, Owner, Page, Purge, Selection, Settlement, Status,
    StoreError, Taken, TxStore,
};
use tokio::time::timeout;

pub use cut::{cut_after, cut_everywhere};

use crate::conformance::{LONG, order_placed, take};

/// Far more than anything here takes.
pub const PATIENCE: Duration = Duration::from_secs(10);

const PAGE: Page = Page { after: 0, limit: 10 };

/// An empty outbox whose stores are interrupted.
pub trait Interrupted: Send + Sync {
    /// The store.
    type Store: TxStore + Administration;

    /// A store of its own on the outbox, with one connection for transactions: one that is lost, or stays in a
    /// transaction, stops everything.
    fn single(&self) -> impl Future<Output = Self::Store>;

    /// Reads the version of its tables.
    fn check(store: &Self::Store) -> impl Future<Output = Result<u32, StoreError>>;

    /// Closes a store.
    fn close(store: &Self::Store) -> impl Future<Output = ()>;

    /// Whether the pool for transactions is closed.
    fn is_closed(store: &Self::Store) -> bool;
}

/// Makes every case a `#[tokio::test]` of its own name.
///
/// The argument is evaluated anew for each of them, inside the test, and may await.
#[macro_export]
macro_rules! cancellations {
    ($stage:expr) => {
        $crate::cancellation_list! { cancellation_tests ($stage) }
    };
}

/// Adds every case of the [cancellations](mod@crate::cancellations) to a [`Suite`](crate::servers::Suite):
/// `cancellation_trials!(suite, server, Stage)`.
#[macro_export]
macro_rules! cancellation_trials {
    ($suite:expr, $server:expr, $stage:ty) => {{
        use $crate::cancellations;
        $crate::cancellation_list! { trials_of ($suite, $server, $stage) }
    }};
}

/// Hands the list of all cases to the macro `$then`, behind `$arguments`.
#[doc(hidden)]
#[macro_export]
macro_rules! cancellation_list {
    ($then:ident $arguments:tt) => {
        $crate::$then! { $arguments;
            cancellations {
                a_dropped_begin_leaves_no_transaction
                a_dropped_commit_ends_the_transaction
                a_dropped_rollback_ends_the_transaction
                a_dropped_insert_is_rolled_back_with_its_transaction
                a_dropped_take_runs_to_its_end
                a_dropped_settle_runs_to_its_end
                a_dropped_renewal_leaves_no_transaction
                a_dropped_resumption_leaves_no_transaction
                a_dropped_replay_runs_to_its_end
                a_dropped_discard_runs_to_its_end
                a_dropped_purge_leaves_no_transaction
                a_dropped_read_loses_no_connection
                a_dropped_close_can_be_repeated
            }
        }
    };
}

/// The tests for a list of cases; use [`cancellations!`].
#[doc(hidden)]
#[macro_export]
macro_rules! cancellation_tests {
    (($stage:expr); cancellations { $($case:ident)* }) => {$(
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $case() {
            let stage = $stage;
            $crate::cancellations::$case(&stage).await;
        }
    )*};
}

/// W5: a beginning that nobody waits for leaves no transaction open.
pub async fn a_dropped_begin_leaves_no_transaction(stage: &impl Interrupted) {
    let store = stage.single().await;

    cut_everywhere(async |polls| {
        let is_complete = cut_after(polls, store.begin()).await.is_some();
        assert_usable(&store).await;
        is_complete
    })
    .await;
}

/// W5: a commit that was begun is carried through; one that was not is rolled back.
pub async fn a_dropped_commit_ends_the_transaction<I: Interrupted>(stage: &I) {
    let store = stage.single().await;

    cut_everywhere(async |polls| {
        let events = [order_placed("order-1"), order_placed("order-2")];
        let mut tx = store.begin().await.unwrap();
        store.insert(I::Store::connection_mut(&mut tx), &events, None).await.unwrap();
        let is_complete = cut_after(polls, I::Store::commit(tx)).await.is_some();
        assert_usable(&store).await;

        for event in &events {
            assert_eq!(status(&store, event).await.is_some(), polls > 0, "after {polls} polls");
        }
        is_complete
    })
    .await;
}

/// W5: a rollback that nobody waits for rolls back.
pub async fn a_dropped_rollback_ends_the_transaction<I: Interrupted>(stage: &I) {
    let store = stage.single().await;

    cut_everywhere(async |polls| {
        let event = order_placed("order-1");
        let mut tx = store.begin().await.unwrap();
        let connection = I::Store::connection_mut(&mut tx);
        store.insert(connection, std::slice::from_ref(&event), None).await.unwrap();
        let is_complete = cut_after(polls, I::Store::rollback(tx)).await.is_some();
        assert_usable(&store).await;

        assert_eq!(status(&store, &event).await, None, "after {polls} polls");
        is_complete
    })
    .await;
}

/// W5: a write that was cut off leaves a transaction that is rolled back by dropping it.
pub async fn a_dropped_insert_is_rolled_back_with_its_transaction<I: Interrupted>(stage: &I) {
    let store = stage.single().await;

    cut_everywhere(async |polls| {
        let events: Vec<Event> = (0..600).map(|n| order_placed(&format!("order-{n}"))).collect();
        let mut tx = store.begin().await.unwrap();
        let insert = store.insert(I::Store::connection_mut(&mut tx), &events, None);
        let is_complete = cut_after(polls, insert).await.is_some();
        drop(tx);
        assert_usable(&store).await;

        assert_eq!(status(&store, &events[0]).await, None, "after {polls} polls");
        is_complete
    })
    .await;
}

/// S5: a take that was begun runs to its end, so that its lease is no riddle.
pub async fn a_dropped_take_runs_to_its_end(stage: &impl Interrupted) {
    let store = stage.single().await;

    cut_everywhere(async |polls| {
        let event = order_placed("order-1");
        write(&store, std::slice::from_ref(&event)).await;
        let is_complete = cut_after(polls, store.take(take(1_000))).await.is_some();
        assert_usable(&store).await;

        let is_taken = async || store.find(event.id()).await.unwrap().unwrap().locked_by.is_some();
        assert!(turns(polls > 0, is_taken).await, "after {polls} polls");
        is_complete
    })
    .await;
}

/// D11: outcomes whose recording was begun are recorded.
pub async fn a_dropped_settle_runs_to_its_end(stage: &impl Interrupted) {
    let store = stage.single().await;

    cut_everywhere(async |polls| {
        let event = order_placed("order-1");
        write(&store, std::slice::from_ref(&event)).await;
        let taken = claim(&store).await;
        let done = outcomes(&taken, &Outcome::Done);
        let is_complete = cut_after(polls, store.settle(&done, DoneRows::Keep)).await.is_some();
        assert_usable(&store).await;

        let is_done = async || status(&store, &event).await == Some(Status::Done);
        assert!(turns(polls > 0, is_done).await, "after {polls} polls");
        store.settle(&done, DoneRows::Keep).await.unwrap();
        is_complete
    })
    .await;
}

/// S5: renewing can be dropped anywhere.
pub async fn a_dropped_renewal_leaves_no_transaction(stage: &impl Interrupted) {
    let store = stage.single().await;
    write(&store, &[order_placed("order-1")]).await;
    let leases: Vec<_> = claim(&store).await.iter().map(|taken| taken.lease).collect();

    cut_everywhere(async |polls| {
        let is_complete = cut_after(polls, store.renew(&leases, LONG)).await.is_some();
        assert_usable(&store).await;
        is_complete
    })
    .await;

    assert!(store.renew(&leases, LONG).await.unwrap().is_empty(), "the lease is held");
}

/// P1, S5: resuming can be dropped anywhere, and done again.
pub async fn a_dropped_resumption_leaves_no_transaction(stage: &impl Interrupted) {
    let store = stage.single().await;
    let successor = Owner::new("relay", 2);

    cut_everywhere(async |polls| {
        claim(&store).await;
        let is_complete = cut_after(polls, store.resume(&successor)).await.is_some();
        assert_usable(&store).await;
        is_complete
    })
    .await;

    claim(&store).await;
    assert!(claim(&store).await.is_empty(), "all is leased");
    store.resume(&successor).await.unwrap();
    assert!(!claim(&store).await.is_empty(), "the leases are ended");
}

/// S2: a replay that was begun is carried through.
pub async fn a_dropped_replay_runs_to_its_end(stage: &impl Interrupted) {
    let store = stage.single().await;

    cut_everywhere(async |polls| {
        let event = dead_event(&store).await;
        let selection = Selection::Ids(vec![event.id().to_owned()]);
        let is_complete = cut_after(polls, store.replay(&selection)).await.is_some();
        assert_usable(&store).await;

        let is_replayed = async || status(&store, &event).await == Some(Status::Retry);
        assert!(turns(polls > 0, is_replayed).await, "after {polls} polls");
        is_complete
    })
    .await;
}

/// S2: a discard that was begun is carried through.
pub async fn a_dropped_discard_runs_to_its_end(stage: &impl Interrupted) {
    let store = stage.single().await;

    cut_everywhere(async |polls| {
        let event = dead_event(&store).await;
        let selection = Selection::Ids(vec![event.id().to_owned()]);
        let is_complete = cut_after(polls, store.discard(&selection)).await.is_some();
        assert_usable(&store).await;

        let is_discarded = async || status(&store, &event).await.is_none();
        assert!(turns(polls > 0, is_discarded).await, "after {polls} polls");
        is_complete
    })
    .await;
}

/// S9: a purge can be dropped anywhere, and the next one does what it left.
pub async fn a_dropped_purge_leaves_no_transaction(stage: &impl Interrupted) {
    let store = stage.single().await;
    let purge = || Purge { older_than: Duration::ZERO, limit: 1_000, after: 0, dead_too: true };

    cut_everywhere(async |polls| {
        let event = dead_event(&store).await;
        let is_complete = cut_after(polls, store.purge(purge())).await.is_some();
        assert_usable(&store).await;

        store.purge(purge()).await.unwrap();
        assert_eq!(status(&store, &event).await, None, "after {polls} polls");
        is_complete
    })
    .await;
}

/// W13, M5: reading can be dropped anywhere.
pub async fn a_dropped_read_loses_no_connection<I: Interrupted>(stage: &I) {
    let store = stage.single().await;
    let event = dead_event(&store).await;
    let (ids, token) = ([event.id().to_owned()], take(1).token);

    cut_everywhere(async |polls| cut_after(polls, store.stats()).await.is_some()).await;
    cut_everywhere(async |polls| cut_after(polls, store.highest()).await.is_some()).await;
    cut_everywhere(async |polls| cut_after(polls, store.find(event.id())).await.is_some()).await;
    cut_everywhere(async |polls| cut_after(polls, store.find_by_aggregate("order-17", PAGE)).await.is_some())
        .await;
    cut_everywhere(async |polls| cut_after(polls, store.dead(PAGE)).await.is_some()).await;
    cut_everywhere(async |polls| cut_after(polls, store.read_back(token, &ids)).await.is_some()).await;
    cut_everywhere(async |polls| cut_after(polls, I::check(&store)).await.is_some()).await;

    assert_usable(&store).await;
    assert_eq!(store.dead(PAGE).await.unwrap().len(), 1);
}

/// S3: a store whose closing was cut off works or says that it is closed, and can be closed again.
pub async fn a_dropped_close_can_be_repeated<I: Interrupted>(stage: &I) {
    cut_everywhere(async |polls| {
        let store = stage.single().await;
        assert_usable(&store).await;
        let is_complete = cut_after(polls, I::close(&store)).await.is_some();

        if let Err(error) = store.take(take(10)).await {
            assert!(error.to_string().contains("the store is closed"), "{error}");
        }
        timeout(PATIENCE, I::close(&store)).await.expect("it is closed");
        assert!(I::is_closed(&store) && store.take(take(10)).await.is_err());
        is_complete
    })
    .await;

    assert_usable(&stage.single().await).await;
}

/// Writes, reads, takes and records, and so finds out whether a connection is lost or a transaction open.
pub async fn assert_usable<S: TxStore + Administration>(store: &S) {
    let event = order_placed("order-17");
    write(store, std::slice::from_ref(&event)).await;
    let found = store.find(event.id()).await.unwrap().unwrap();
    store.take(take(0)).await.unwrap();
    store.resume(&Owner::new("nobody", 1)).await.unwrap();
    assert_eq!(found.status, Ok(Status::New));
}

/// Whether something becomes `expected`: a step that was left behind may run on a connection of its own.
async fn turns(expected: bool, mut is_so: impl AsyncFnMut() -> bool) -> bool {
    let becomes = async { while is_so().await != expected {} };
    timeout(PATIENCE, becomes).await.is_ok()
}

async fn write<S: TxStore>(store: &S, events: &[Event]) {
    let mut tx = store.begin().await.unwrap();
    store.insert(S::connection_mut(&mut tx), events, None).await.unwrap();
    S::commit(tx).await.unwrap();
}

/// Takes all that there is.
async fn claim(store: &impl TxStore) -> Vec<Taken> {
    store.take(take(1_000)).await.unwrap().events
}

fn outcomes(taken: &[Taken], outcome: &Outcome) -> Vec<Settlement> {
    taken.iter().map(|taken| Settlement::of(taken, outcome.clone())).collect()
}

/// Writes an event and kills it, and whatever else there is.
async fn dead_event(store: &impl TxStore) -> Event {
    let event = order_placed("order-17");
    write(store, std::slice::from_ref(&event)).await;
    let dead = outcomes(&claim(store).await, &Outcome::Dead { error: "never".into(), spent: true });
    assert!(store.settle(&dead, DoneRows::Keep).await.unwrap().is_empty());
    event
}

async fn status(store: &impl Administration, event: &Event) -> Option<Status> {
    store.find(event.id()).await.unwrap().map(|stored| stored.status.unwrap())
}
