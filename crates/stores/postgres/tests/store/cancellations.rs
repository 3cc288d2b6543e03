//! A future that is dropped at any await leaves no transaction open and no connection lost.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use pillarbox::Event;
use pillarbox::store::{
    Administration, DoneRows, EventStore, Outcome, Owner, Page, Purge, Selection, Settlement, Status, Taken,
    TxStore, WakeUp,
};
use pillarbox_postgres::PostgresStore;
use pillarbox_testkit::conformance::{LONG, order_placed, take};
use sqlx::postgres::PgPoolOptions;
use tokio::time::timeout;

use crate::stage::PostgresStage;

/// More often than any of these futures is polled.
const MOST_POLLS: usize = 20_000;

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
    let (mut polls, mut completions) = (0, 0);
    while polls < MOST_POLLS {
        let is_complete = cut(polls).await;
        assert!(polls > 0 || !is_complete, "nothing completes without being polled");
        completions = if is_complete { completions + 1 } else { 0 };
        if completions == ENOUGH_COMPLETIONS {
            return;
        }
        // Making a connection takes hundreds of polls, most of which are alike.
        polls += 1 + polls / 20;
    }
    panic!("it is not complete after {MOST_POLLS} polls");
}

/// A store with one connection for transactions: one that is lost, or stays in a transaction, stops everything.
async fn single(stage: &PostgresStage) -> PostgresStore {
    let options = stage.options().connect_timeout(Duration::from_secs(5)).max_connections(1);
    let store = options.connect().await.unwrap();
    store.migrate().await.unwrap();
    store
}

async fn write(store: &PostgresStore, events: &[Event]) {
    let mut tx = store.begin().await.unwrap();
    store.insert(&mut tx, events, None).await.unwrap();
    PostgresStore::commit(tx).await.unwrap();
}

async fn claim(store: &PostgresStore, limit: usize) -> Vec<Taken> {
    store.take(take(limit)).await.unwrap().events
}

async fn settle(store: &PostgresStore, taken: &[Taken], outcome: Outcome) -> Vec<i64> {
    let settlement = |taken: &Taken| Settlement { lease: taken.lease, outcome: outcome.clone() };
    let settlements: Vec<Settlement> = taken.iter().map(settlement).collect();
    store.settle(&settlements, DoneRows::Keep).await.unwrap()
}

/// Writes, settles and reads, behind everything that is under way.
async fn assert_usable(store: &PostgresStore) {
    let event = order_placed("order-17");
    write(store, std::slice::from_ref(&event)).await;
    let found = store.find(event.id()).await.unwrap().unwrap();
    store.resume(&Owner::new("nobody", 1)).await.unwrap();
    assert_eq!(found.status, Ok(Status::New));
}

/// Writes an event and kills it.
async fn dead_event(store: &PostgresStore) -> Event {
    let event = order_placed("order-17");
    write(store, std::slice::from_ref(&event)).await;
    let taken = claim(store, 1_000).await;
    assert!(settle(store, &taken, Outcome::Dead { error: "never".into(), spent: true }).await.is_empty());
    event
}

async fn status(store: &PostgresStore, event: &Event) -> Option<Status> {
    store.find(event.id()).await.unwrap().map(|stored| stored.status.unwrap())
}

/// W5: a beginning that nobody waits for leaves no transaction open.
pub(crate) async fn a_dropped_begin_leaves_no_transaction(stage: &PostgresStage) {
    let store = single(stage).await;

    cut_everywhere(async |polls| {
        let is_complete = cut_after(polls, store.begin()).await.is_some();
        assert_usable(&store).await;
        is_complete
    })
    .await;
}

/// W5: a commit that was begun is carried through; one that was not is rolled back.
pub(crate) async fn a_dropped_commit_ends_the_transaction(stage: &PostgresStage) {
    let store = single(stage).await;

    cut_everywhere(async |polls| {
        let events = [order_placed("order-1"), order_placed("order-2")];
        let mut tx = store.begin().await.unwrap();
        store.insert(&mut tx, &events, None).await.unwrap();
        let is_complete = cut_after(polls, PostgresStore::commit(tx)).await.is_some();
        assert_usable(&store).await;

        for event in &events {
            assert_eq!(status(&store, event).await.is_some(), polls > 0, "after {polls} polls");
        }
        is_complete
    })
    .await;
}

/// W5: a rollback that nobody waits for rolls back.
pub(crate) async fn a_dropped_rollback_ends_the_transaction(stage: &PostgresStage) {
    let store = single(stage).await;

    cut_everywhere(async |polls| {
        let event = order_placed("order-1");
        let mut tx = store.begin().await.unwrap();
        store.insert(&mut tx, std::slice::from_ref(&event), None).await.unwrap();
        let is_complete = cut_after(polls, PostgresStore::rollback(tx)).await.is_some();
        assert_usable(&store).await;

        assert_eq!(status(&store, &event).await, None, "after {polls} polls");
        is_complete
    })
    .await;
}

/// W5: a write that was cut off leaves a transaction that is rolled back by dropping it.
pub(crate) async fn a_dropped_insert_is_rolled_back_with_its_transaction(stage: &PostgresStage) {
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
pub(crate) async fn a_dropped_take_runs_to_its_end(stage: &PostgresStage) {
    let store = single(stage).await;

    cut_everywhere(async |polls| {
        let event = order_placed("order-1");
        write(&store, std::slice::from_ref(&event)).await;
        let is_complete = cut_after(polls, store.take(take(1_000))).await.is_some();
        assert_usable(&store).await;

        let rest = claim(&store, 1_000).await;
        let is_left = rest.iter().any(|taken| taken.event_id == event.id());
        assert_eq!(is_left, polls == 0, "after {polls} polls");
        is_complete
    })
    .await;
}

/// D11: outcomes whose recording was begun are recorded.
pub(crate) async fn a_dropped_settle_runs_to_its_end(stage: &PostgresStage) {
    let store = single(stage).await;

    cut_everywhere(async |polls| {
        let event = order_placed("order-1");
        write(&store, std::slice::from_ref(&event)).await;
        let taken = claim(&store, 1_000).await;
        let done = |taken: &Taken| Settlement { lease: taken.lease, outcome: Outcome::Done };
        let done: Vec<Settlement> = taken.iter().map(done).collect();
        let is_complete = cut_after(polls, store.settle(&done, DoneRows::Keep)).await.is_some();
        assert_usable(&store).await;

        assert_eq!(status(&store, &event).await == Some(Status::Done), polls > 0, "after {polls} polls");
        settle(&store, &taken, Outcome::Done).await;
        is_complete
    })
    .await;
}

/// D11: renewing and resuming can be dropped anywhere.
pub(crate) async fn a_dropped_renewal_or_resumption_leaves_no_transaction(stage: &PostgresStage) {
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
pub(crate) async fn a_dropped_replay_or_discard_runs_to_its_end(stage: &PostgresStage) {
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
pub(crate) async fn a_dropped_purge_leaves_no_transaction(stage: &PostgresStage) {
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
pub(crate) async fn a_dropped_read_loses_no_connection(stage: &PostgresStage) {
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

/// P5: news that nobody waited for any more is there for the next who does.
pub(crate) async fn a_dropped_watch_loses_no_news(stage: &PostgresStage) {
    let store = single(stage).await;
    timeout(PATIENCE, store.changed()).await.expect("LISTEN is set up");

    cut_everywhere(async |polls| {
        stage.store.announce().await;
        let is_complete = cut_after(polls, store.changed()).await.is_some();
        if !is_complete {
            timeout(PATIENCE, store.changed()).await.expect("it is woken");
        }
        is_complete
    })
    .await;
}

/// S6: connecting and migrating can be dropped anywhere, and done again.
pub(crate) async fn a_dropped_connect_or_migration_leaves_the_database_usable(stage: &PostgresStage) {
    cut_everywhere(async |polls| {
        let is_complete = cut_after(polls, stage.options().connect()).await.is_some();
        assert_usable(&single(stage).await).await;
        is_complete
    })
    .await;
    cut_everywhere(async |polls| {
        let store = stage.options().prefix(format!("after_{polls}_polls_")).connect().await.unwrap();
        let is_complete = cut_after(polls, store.migrate()).await.is_some();
        drop(store.begin().await.unwrap());

        assert_eq!(store.check().await.is_ok(), polls > 0, "after {polls} polls");
        store.migrate().await.unwrap();
        assert_usable(&store).await;
        is_complete
    })
    .await;
}

/// S4: a pool of the user's that was to become a store stays as it was.
pub(crate) async fn a_dropped_from_pool_leaves_the_pool_usable(stage: &PostgresStage) {
    let pool = PgPoolOptions::new().max_connections(1).connect(&stage.url).await.unwrap();
    let store = || PostgresStore::options_of_pool(pool.clone()).schema(&stage.schema).connect();

    cut_everywhere(async |polls| {
        let is_complete = cut_after(polls, store()).await.is_some();
        sqlx::query("SELECT 1").execute(&pool).await.unwrap();
        is_complete
    })
    .await;

    assert_usable(&store().await.unwrap()).await;
}

/// D11: a store whose closing was cut off works or says that it is closed, and can be closed again.
pub(crate) async fn a_dropped_close_can_be_repeated(stage: &PostgresStage) {
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
