//! A file that is full: nothing is lost, and everything goes on when there is room.

use std::collections::HashSet;
use std::time::Duration;

use pillarbox::store::{
    Administration, DoneRows, EventStore, Outcome, Owner, Settlement, Status, StoreError, Take, Taken, Token,
    TxStore,
};
use pillarbox::{Delivery, Event, ListenerError, Outbox, Retry};
use pillarbox_sqlite::SqliteStore;
use sqlx::sqlite::{SqliteConnectOptions, SqlitePool};
use tokio::sync::{mpsc, watch};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};

use crate::stage::{SqliteStage, placed};

const EVENTS: usize = 300;

/// A file that no connection lets grow. It is full when `filler` has all of its pages.
struct Cramped {
    store: SqliteStore,
    stage: SqliteStage,
}

impl Cramped {
    /// A file with `events` and some room.
    async fn with(events: &[Event]) -> Self {
        let stage = SqliteStage::fresh().await;
        let mut tx = stage.store.begin().await.unwrap();
        stage.store.insert(&mut tx, events, None).await.unwrap();
        sqlx::query("CREATE TABLE filler (bytes BLOB)").execute(&mut *tx).await.unwrap();
        sqlx::query("INSERT INTO filler VALUES (zeroblob(4000000))").execute(&mut *tx).await.unwrap();
        SqliteStore::commit(tx).await.unwrap();
        // No file can be limited to less than it has.
        let options = SqliteConnectOptions::new().filename(stage.store.path()).pragma("max_page_count", "1");
        let pool = SqlitePool::connect_with(options).await.unwrap();
        let cramped = Self { store: SqliteStore::from_pool(pool).await.unwrap(), stage };
        cramped.make_room().await;
        cramped
    }

    async fn fill(&self) {
        for size in [100_000, 3_000, 1] {
            let insert = "INSERT INTO filler VALUES (zeroblob(?))";
            while sqlx::query(insert).bind(size).execute(self.store.pool()).await.is_ok() {}
        }
    }

    async fn make_room(&self) {
        sqlx::query("DELETE FROM filler").execute(self.store.pool()).await.unwrap();
    }
}

fn orders(range: std::ops::Range<usize>) -> Vec<Event> {
    range.map(|number| placed(&format!("order-{number}"))).collect()
}

fn take() -> Take {
    Take {
        owner: Owner::new("orders", 1),
        token: Token(17),
        limit: EVENTS,
        lease_for: Duration::from_secs(600),
        skip_recent: Duration::ZERO,
        sweep: false,
    }
}

fn assert_full(error: &StoreError) {
    assert!(error.is_transient() && error.to_string().contains("full; free some space"), "{error}");
}

/// S2, D11: a full file refuses takes and settlements as a whole, with a remedy, and they work when there is room.
#[tokio::test]
async fn take_and_settle_work_again_when_there_is_room() {
    let file = Cramped::with(&orders(0..EVENTS)).await;
    let retry = |taken: &Taken| {
        let outcome = Outcome::Retry { after: Duration::ZERO, error: "no".repeat(2_000), spent: true };
        Settlement::of(taken, outcome)
    };

    file.fill().await;
    assert_full(&file.store.take(take()).await.unwrap_err());
    file.make_room().await;
    let taken = file.store.take(take()).await.unwrap().events;
    let settlements: Vec<Settlement> = taken.iter().map(retry).collect();
    file.fill().await;
    assert_full(&file.store.settle(&settlements, DoneRows::Keep).await.unwrap_err());
    let stats = file.store.stats().await.unwrap();
    assert_eq!((stats.new, stats.retry), (EVENTS as u64, 0), "nothing is recorded by halves");
    file.make_room().await;

    assert_eq!(file.store.settle(&settlements, DoneRows::Keep).await.unwrap(), [0; 0]);
    assert_eq!((taken.len(), file.store.stats().await.unwrap().retry), (EVENTS, EVENTS as u64));
}

/// W13: a commit after the file was full says what became of the transaction.
#[tokio::test]
async fn commit_on_a_full_file_tells_the_truth() {
    let file = Cramped::with(&[]).await;
    let mut tx = file.store.begin().await.unwrap();
    file.store.insert(&mut tx, &orders(1..2), None).await.unwrap();

    let full = sqlx::query("INSERT INTO filler VALUES (zeroblob(100000000))").execute(&mut *tx).await;
    let committed = SqliteStore::commit(tx).await;

    assert!(full.is_err());
    assert_eq!(committed.is_ok(), file.stage.status("order-1").await.is_some(), "{committed:?}");
    let mut tx = file.store.begin().await.unwrap();
    file.store.insert(&mut tx, &orders(2..3), None).await.unwrap();
    SqliteStore::commit(tx).await.unwrap();
    assert_eq!(file.stage.status("order-2").await, Some(Status::New));
}

/// Counts what the settler logs as errors.
pub(crate) struct Troubles(pub(crate) watch::Sender<usize>);

impl<S: tracing::Subscriber> Layer<S> for Troubles {
    fn on_event(&self, event: &tracing::Event<'_>, _: Context<'_, S>) {
        let metadata = event.metadata();
        if metadata.target() == "pillarbox::settler" && *metadata.level() == tracing::Level::ERROR {
            self.0.send_modify(|count| *count += 1);
        }
    }
}

/// An outbox whose listener waits for `may_answer`, fails with a long error, and then accepts.
fn start(
    store: &SqliteStore,
    may_answer: watch::Receiver<bool>,
) -> (Outbox<SqliteStore>, mpsc::UnboundedReceiver<Delivery>) {
    let (calls, called) = mpsc::unbounded_channel();
    let listener = move |delivery: Delivery| {
        let (calls, mut may_answer) = (calls.clone(), may_answer.clone());
        async move {
            calls.send(delivery.clone()).unwrap();
            may_answer.wait_for(|may| *may).await.unwrap();
            if delivery.attempt() == 1 { Err(ListenerError::new("no".repeat(2_000))) } else { Ok(()) }
        }
    };
    let outbox = Outbox::builder(store.clone())
        .on("OrderPlaced", listener)
        .retry(Retry::fixed(Duration::from_millis(1)))
        .poll_every(Duration::from_millis(50))
        .skip_recent(Duration::ZERO)
        .start()
        .unwrap();
    (outbox, called)
}

/// D11: an outbox on a file that is full again and again delivers and records every event.
#[tokio::test]
async fn outbox_on_a_full_file_loses_nothing() {
    let file = Cramped::with(&orders(0..EVENTS)).await;
    let (troubles, mut troubled) = watch::channel(0);
    // The engine runs on this thread, as the test does.
    let _logs = tracing::subscriber::set_default(tracing_subscriber::registry().with(Troubles(troubles)));
    let (answer, may_answer) = watch::channel(false);
    file.fill().await;
    let (outbox, mut called) = start(&file.store, may_answer);

    assert_full(&outbox.poll().await.unwrap_err());
    let mut tx = outbox.begin().await.unwrap();
    assert!(outbox.write_all(&mut tx, orders(EVENTS..2 * EVENTS)).await.is_err());
    tx.rollback().await.unwrap();
    file.make_room().await;
    let first = called.recv().await.unwrap();
    file.fill().await;
    answer.send(true).unwrap();
    troubled.wait_for(|count| *count > 0).await.unwrap();
    file.make_room().await;
    let mut accepted = HashSet::new();
    while accepted.len() < EVENTS {
        let delivery = called.recv().await.unwrap();
        if delivery.attempt() > 1 {
            accepted.insert(delivery.id().to_owned());
        }
    }
    outbox.close().await;

    assert_eq!(first.attempt(), 1);
    let stats = file.store.stats().await.unwrap();
    assert_eq!((stats.pending(), stats.dead, stats.done_estimate), (0, 0, EVENTS as u64));
}
