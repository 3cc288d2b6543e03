//! A future that is dropped at any await leaves no transaction open and no connection lost.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use pillarbox::Event;
use pillarbox::store::{
    Administration, DoneRows, EventStore, Outcome, Owner, Page, Purge, Selection, Settlement, Status, Taken,
    TxStore,
};
use pillarbox_mysql::MySqlStore;
use pillarbox_testkit::conformance::{LONG, order_placed, take};
use sqlx::Executor;
use tokio::time::timeout;

use crate::stage::MySqlStage;

/// More often than any of these futures is polled.
const MOST_POLLS: usize = 200;

/// One completion may be luck: the server was faster than usual.
const ENOUGH_COMPLETIONS: usize = 3;

/// Far more than anything here takes.
const PATIENCE: Duration = Duration::from_secs(10);

const PAGE: Page = Page { after: 0, limit: 10 };

/// Polls `future` at most `polls` times and drops it then.
async fn cut_after<T>(polls: usize, future: impl Future<Output = T>) -> Option<T> {
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

/// Cuts the future that `cut` makes at its first await, its second, and so on until it completes for sure.
async fn cut_everywhere(mut cut: impl AsyncFnMut(usize) -> bool) {
    let mut completions = 0;
    for polls in 0..MOST_POLLS {
        let is_complete = cut(polls).await;
        assert!(polls > 0 || !is_complete, "nothing completes without being polled");
        completions = if is_complete { completions + 1 } else { 0 };
        if completions == ENOUGH_COMPLETIONS {
            return;
        }
    }
    panic!("it is not complete after {MOST_POLLS} polls");
}

/// Whether something becomes `expected`: a step that was left behind runs on a connection of its own.
async fn turns(expected: bool, mut is_so: impl AsyncFnMut() -> bool) -> bool {
    let becomes = async { while is_so().await != expected {} };
    timeout(PATIENCE, becomes).await.is_ok()
}

/// A store with one connection for transactions: one that is lost, or stays in a transaction, stops everything.
async fn single(stage: &MySqlStage) -> MySqlStore {
    stage.options().max_connections(1).connect().await.unwrap()
}

/// Writes events in a transaction of their own.
async fn write(store: &MySqlStore, events: &[Event]) {
    let mut tx = store.begin().await.unwrap();
    store.insert(&mut tx, events, None).await.unwrap();
    MySqlStore::commit(tx).await.unwrap();
}

async fn claim(store: &MySqlStore, limit: usize) -> Vec<Taken> {
    store.take(take(limit)).await.unwrap().events
}

async fn settle(store: &MySqlStore, taken: &[Taken], outcome: Outcome) -> Vec<i64> {
    let settle = |taken: &Taken| Settlement { lease: taken.lease, outcome: outcome.clone() };
    let settlements: Vec<Settlement> = taken.iter().map(settle).collect();
    store.settle(&settlements, DoneRows::Keep).await.unwrap()
}

/// Writes, takes and reads.
async fn assert_usable(store: &MySqlStore) {
    let event = order_placed("order-17");
    write(store, std::slice::from_ref(&event)).await;
    let found = store.find(event.id()).await.unwrap().unwrap();
    store.take(take(0)).await.unwrap();
    assert_eq!(found.status, Ok(Status::New));
}

/// Writes an event and kills it.
async fn dead_event(store: &MySqlStore) -> Event {
    let event = order_placed("order-17");
    write(store, std::slice::from_ref(&event)).await;
    let taken = claim(store, 1_000).await;
    assert!(settle(store, &taken, Outcome::Dead { error: "never".into(), spent: true }).await.is_empty());
    event
}

async fn status(store: &MySqlStore, event: &Event) -> Option<Status> {
    store.find(event.id()).await.unwrap().map(|stored| stored.status.unwrap())
}

/// W5: a beginning that nobody waits for leaves no transaction open.
pub(crate) async fn a_dropped_begin_leaves_no_transaction(stage: &MySqlStage) {
    let store = single(stage).await;

    cut_everywhere(async |polls| {
        let is_complete = cut_after(polls, store.begin()).await.is_some();
        assert_usable(&store).await;
        is_complete
    })
    .await;
}

/// W5: a commit that was begun is carried through; one that was not is rolled back.
pub(crate) async fn a_dropped_commit_ends_the_transaction(stage: &MySqlStage) {
    let store = single(stage).await;

    cut_everywhere(async |polls| {
        let events = [order_placed("order-1"), order_placed("order-2")];
        let mut tx = store.begin().await.unwrap();
        store.insert(&mut tx, &events, None).await.unwrap();
        let is_complete = cut_after(polls, MySqlStore::commit(tx)).await.is_some();
        assert_usable(&store).await;

        for event in &events {
            assert_eq!(status(&store, event).await.is_some(), polls > 0, "after {polls} polls");
        }
        is_complete
    })
    .await;
}

/// W5: a rollback that nobody waits for rolls back.
pub(crate) async fn a_dropped_rollback_ends_the_transaction(stage: &MySqlStage) {
    let store = single(stage).await;

    cut_everywhere(async |polls| {
        let event = order_placed("order-1");
        let mut tx = store.begin().await.unwrap();
        store.insert(&mut tx, std::slice::from_ref(&event), None).await.unwrap();
        let is_complete = cut_after(polls, MySqlStore::rollback(tx)).await.is_some();
        assert_usable(&store).await;

        assert_eq!(status(&store, &event).await, None, "after {polls} polls");
        is_complete
    })
    .await;
}

/// W5: a write that was cut off leaves a transaction that is rolled back by dropping it.
pub(crate) async fn a_dropped_insert_is_rolled_back_with_its_transaction(stage: &MySqlStage) {
    let store = single(stage).await;

    cut_everywhere(async |polls| {
        let events: Vec<Event> = (0..600).map(|n| order_placed(&format!("order-{n}"))).collect();
        let mut tx = store.begin().await.unwrap();
        let is_complete = cut_after(polls, store.insert(&mut tx, &events, None)).await.is_some();
        drop(tx);
        assert_usable(&store).await;

        assert_eq!(status(&store, &events[0]).await, None, "after {polls} polls");
        is_complete
    })
    .await;
}

/// D11: a take that was begun runs to its end, so that its lease is no riddle.
pub(crate) async fn a_dropped_take_runs_to_its_end(stage: &MySqlStage) {
    let store = single(stage).await;

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
pub(crate) async fn a_dropped_settle_runs_to_its_end(stage: &MySqlStage) {
    let store = single(stage).await;

    cut_everywhere(async |polls| {
        let event = order_placed("order-1");
        write(&store, std::slice::from_ref(&event)).await;
        let taken = claim(&store, 1_000).await;
        let done = |taken: &Taken| Settlement { lease: taken.lease, outcome: Outcome::Done };
        let done: Vec<Settlement> = taken.iter().map(done).collect();
        let is_complete = cut_after(polls, store.settle(&done, DoneRows::Keep)).await.is_some();
        assert_usable(&store).await;

        let is_done = async || status(&store, &event).await == Some(Status::Done);
        assert!(turns(polls > 0, is_done).await, "after {polls} polls");
        settle(&store, &taken, Outcome::Done).await;
        is_complete
    })
    .await;
}

/// D11: renewing and resuming can be dropped anywhere.
pub(crate) async fn a_dropped_renewal_or_resumption_leaves_no_transaction(stage: &MySqlStage) {
    let store = single(stage).await;
    write(&store, &[order_placed("order-1")]).await;
    let leases: Vec<_> = claim(&store, 10).await.iter().map(|taken| taken.lease).collect();

    cut_everywhere(async |polls| {
        let is_complete = cut_after(polls, store.renew(&leases, LONG)).await.is_some();
        assert_usable(&store).await;
        is_complete
    })
    .await;
    assert!(store.renew(&leases, LONG).await.unwrap().is_empty(), "the lease is held");

    cut_everywhere(async |polls| {
        claim(&store, 1_000).await;
        let is_complete = cut_after(polls, store.resume(&Owner::new("relay", 2))).await.is_some();
        assert_usable(&store).await;
        is_complete
    })
    .await;
    store.resume(&Owner::new("relay", 2)).await.unwrap();
    assert!(!claim(&store, 1_000).await.is_empty());
}

/// D11: what operators ask for is done once it was begun.
pub(crate) async fn a_dropped_replay_or_discard_runs_to_its_end(stage: &MySqlStage) {
    let store = single(stage).await;

    cut_everywhere(async |polls| {
        let event = dead_event(&store).await;
        let selection = Selection::Ids(vec![event.id().to_owned()]);
        let is_complete = cut_after(polls, store.replay(&selection)).await.is_some();
        assert_usable(&store).await;

        assert_eq!(status(&store, &event).await == Some(Status::Retry), polls > 0, "after {polls} polls");
        is_complete
    })
    .await;
    cut_everywhere(async |polls| {
        let event = dead_event(&store).await;
        let selection = Selection::Ids(vec![event.id().to_owned()]);
        let is_complete = cut_after(polls, store.discard(&selection)).await.is_some();
        assert_usable(&store).await;

        assert_eq!(status(&store, &event).await.is_none(), polls > 0, "after {polls} polls");
        is_complete
    })
    .await;
}

/// D11: a purge can be dropped anywhere, and the next one does what it left.
pub(crate) async fn a_dropped_purge_leaves_no_transaction(stage: &MySqlStage) {
    let store = single(stage).await;
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

/// D11: reading can be dropped anywhere.
pub(crate) async fn a_dropped_read_loses_no_connection(stage: &MySqlStage) {
    let store = single(stage).await;
    let event = dead_event(&store).await;
    let ids = [event.id().to_owned()];
    let token = take(1).token;

    cut_everywhere(async |polls| cut_after(polls, store.stats()).await.is_some()).await;
    cut_everywhere(async |polls| cut_after(polls, store.highest()).await.is_some()).await;
    cut_everywhere(async |polls| cut_after(polls, store.find(event.id())).await.is_some()).await;
    cut_everywhere(async |polls| cut_after(polls, store.find_by_aggregate("order-17", PAGE)).await.is_some())
        .await;
    cut_everywhere(async |polls| cut_after(polls, store.dead(PAGE)).await.is_some()).await;
    cut_everywhere(async |polls| cut_after(polls, store.read_back(token, &ids)).await.is_some()).await;
    cut_everywhere(async |polls| cut_after(polls, store.check()).await.is_some()).await;

    assert_usable(&store).await;
    assert_eq!(store.dead(PAGE).await.unwrap().len(), 1);
}

/// D11: a store whose closing was cut off works or says that it is closed, and can be closed again.
pub(crate) async fn a_dropped_close_can_be_repeated(stage: &MySqlStage) {
    cut_everywhere(async |polls| {
        let store = single(stage).await;
        assert_usable(&store).await;
        let is_complete = cut_after(polls, store.close()).await.is_some();

        if let Err(error) = store.take(take(10)).await {
            assert!(error.to_string().contains("the store is closed"), "{error}");
        }
        timeout(PATIENCE, store.close()).await.expect("it is closed");
        assert!(store.pool().is_closed() && store.take(take(10)).await.is_err());
        is_complete
    })
    .await;

    assert_usable(&single(stage).await).await;
}

/// S4: a statement of the user's that was cut off anywhere does not spoil the pool: what was sent and not
/// answered is not taken for the answer to something else.
pub(crate) async fn a_dropped_statement_of_the_user_spoils_nothing(stage: &MySqlStage) {
    stage.run("CREATE TABLE orders (id INT PRIMARY KEY, name VARCHAR(20)) ENGINE = InnoDB").await;
    let store = single(stage).await;
    let mut id = 0;

    cut_everywhere(async |polls| {
        let mut tx = store.begin().await.unwrap();
        id += 1;
        let insert = sqlx::query("INSERT INTO orders (id, name) VALUES (?, ?)").persistent(false).bind(id);
        let is_complete = cut_after(polls, insert.bind("teapot").execute(&mut *tx)).await.is_some();
        drop(tx);
        assert_usable(&store).await;

        let count = format!("SELECT COUNT(*) FROM orders WHERE id = {id}");
        assert_eq!(stage.number(&count).await, 0, "after {polls} polls");
        is_complete
    })
    .await;
    let mut tx = store.begin().await.unwrap();
    tx.execute("INSERT INTO orders (id, name) VALUES (0, 'cup')").await.unwrap();
    MySqlStore::commit(tx).await.unwrap();
    store.close().await;
}

/// S6: connecting and migrating can be dropped anywhere, and done again.
pub(crate) async fn a_dropped_connect_or_migration_can_be_repeated(stage: &MySqlStage) {
    cut_everywhere(async |polls| {
        let is_complete = cut_after(polls, stage.options().connect()).await.is_some();
        let store = single(stage).await;
        assert_usable(&store).await;
        store.close().await;
        is_complete
    })
    .await;
    cut_everywhere(async |polls| {
        stage.run("DROP TABLE outbox_event, outbox_meta").await;
        let is_complete = cut_after(polls, stage.store.migrate()).await.is_some();

        timeout(PATIENCE, stage.store.migrate()).await.expect("nobody holds the lock").unwrap();
        assert_usable(&stage.store).await;
        is_complete
    })
    .await;
}
