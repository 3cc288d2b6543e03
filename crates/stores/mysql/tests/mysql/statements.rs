//! How many statements things cost, counted by what the driver logs.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Once};

use pillarbox::Event;
use pillarbox::store::{
    Birth, DoneRows, EventStore, Fetched, Found, Holding, Instance, Lease, Outcome, Owner, Ownership,
    Settlement, StoreError, Taken, Token, TxStore,
};
use pillarbox_mysql::MySqlStore;
use pillarbox_testkit::conformance::ownership::{floor, owned_outcomes, unnamed, visit, visit_without};
use pillarbox_testkit::conformance::{LONG, order_placed, take};
use sqlx::{AssertSqlSafe, ConnectOptions, Executor};
use tracing::field::{Field, Visit};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};

use crate::stage::MySqlStage;
use crate::way::way_to;

static LOGGED: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Keeps the text of every statement of this process; trials tell theirs apart by the prefix of their tables.
struct Statements;

impl<S: tracing::Subscriber> Layer<S> for Statements {
    fn on_event(&self, event: &tracing::Event<'_>, _: Context<'_, S>) {
        if event.metadata().target() == "sqlx::query" {
            let mut text = Text::default();
            event.record(&mut text);
            LOGGED.lock().unwrap().push(text.0);
        }
    }
}

#[derive(Default)]
struct Text(String);

impl Visit for Text {
    fn record_str(&mut self, field: &Field, value: &str) {
        if ["summary", "db.statement"].contains(&field.name()) {
            self.0.push_str(value);
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        if ["summary", "db.statement"].contains(&field.name()) {
            write!(self.0, "{value:?}").unwrap();
        }
    }
}

/// A store whose statements are counted.
pub(crate) struct Counted {
    pub(crate) store: MySqlStore,
    prefix: String,
}

impl Counted {
    pub(crate) async fn new(stage: &MySqlStage) -> Self {
        static LISTEN: Once = Once::new();
        LISTEN.call_once(|| {
            tracing::subscriber::set_global_default(tracing_subscriber::registry().with(Statements)).unwrap();
        });
        let prefix = format!("c{}_", &stage.database[stage.database.len() - 10..]);
        let store = stage.options().prefix(prefix.clone()).connect().await.unwrap();
        store.migrate().await.unwrap();
        let counted = Self { store, prefix };
        counted.statements();
        counted
    }

    /// The statements on the outbox since the last call.
    pub(crate) fn statements(&self) -> Vec<String> {
        let mut logged = LOGGED.lock().unwrap();
        let (ours, others) = logged.drain(..).partition(|sql| sql.contains(&self.prefix));
        *logged = others;
        ours
    }

    pub(crate) async fn write(&self, events: &[Event], birth: Option<&Birth>) {
        let mut tx = self.store.begin().await.unwrap();
        self.store.insert(&mut tx, events, birth).await.unwrap();
        MySqlStore::commit(tx).await.unwrap();
    }

    async fn take(&self, limit: usize) -> Vec<Taken> {
        self.store.take(take(limit)).await.unwrap().events
    }
}

fn orders_placed(count: usize) -> Vec<Event> {
    (0..count).map(|n| order_placed(&format!("order-{n}"))).collect()
}

/// W2: one event is one statement, ten are one, 500 are one, 501 are two.
pub(crate) async fn events_of_a_call_are_one_statement(stage: &MySqlStage) {
    let counted = Counted::new(stage).await;
    let birth = Birth { owner: Owner::new("orders", 1), token: Token(17), lease_for: LONG };

    for (events, statements) in [(1, 1), (2, 1), (10, 1), (500, 1), (501, 2)] {
        counted.write(&orders_placed(events), Some(&birth)).await;
        assert_eq!(counted.statements().len(), statements, "for {events} events");
    }
    counted.store.close().await;
}

/// W2: a transaction begins without a word to the server, and costs a round trip for each statement of the user's and
/// one for its end.
pub(crate) async fn a_transaction_begins_without_a_round_trip(stage: &MySqlStage) {
    const COM_PING: u8 = 0x0e;
    let sent = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&sent);
    // A command is the fifth byte of a packet that follows no other. Whether the server is there is asked after a
    // transaction, when nobody waits for it, and again after a pause.
    let way = way_to(stage.administrator().database(&stage.database), move |bytes| {
        let is_counted = bytes.len() > 4 && bytes[3] == 0 && bytes[4] != COM_PING;
        counter.fetch_add(usize::from(is_counted), Ordering::Relaxed);
        true
    });
    let url = way.await.to_url_lossy().to_string();
    let store = MySqlStore::options(url).max_connections(1).connect().await.unwrap();
    let sent = || sent.swap(0, Ordering::Relaxed);
    let mut costs = Vec::new();

    for order in ["order-1", "order-2", "order-3"] {
        sent();
        let mut tx = store.begin().await.unwrap();
        let begun = sent();
        store.insert(&mut tx, &[order_placed(order)], None).await.unwrap();
        let written = sent();
        MySqlStore::commit(tx).await.unwrap();
        costs.push([begun, written, sent()]);
    }

    assert_eq!(costs[1..], [[0, 1, 1]; 2], "once it is connected and the INSERT prepared");
    store.close().await;
}

/// P2, P4: a take that is full costs two statements, a short one three, an empty one two; beside them a beginning and
/// an end, each in one round trip.
pub(crate) async fn a_take_is_few_statements(stage: &MySqlStage) {
    let counted = Counted::new(stage).await;
    counted.write(&orders_placed(300), None).await;
    counted.statements();

    for (asked, taken, statements) in [(200, 200, 4), (200, 100, 5), (200, 0, 4)] {
        assert_eq!(counted.take(asked).await.len(), taken);
        let found = counted.statements();
        assert_eq!(found.len(), statements, "{found:?}");
    }
    counted.store.close().await;
}

/// D9: outcomes of one kind are one statement; a lost one costs three more, whatever the size.
pub(crate) async fn outcomes_of_a_kind_are_one_statement(stage: &MySqlStage) {
    let counted = Counted::new(stage).await;
    counted.write(&orders_placed(600), None).await;
    let kinds = [
        Outcome::Done,
        Outcome::Retry { after: LONG, error: "no".into(), spent: true },
        Outcome::Aside { until: Some(LONG), reason: "later".into() },
        Outcome::Dead { error: "no".into(), spent: true },
        Outcome::Released,
    ];
    for outcome in kinds {
        let settle = |taken: &Taken| Settlement::of(taken, outcome.clone());
        let settlements: Vec<_> = counted.take(100).await.iter().map(settle).collect();
        counted.statements();

        assert!(counted.store.settle(&settlements, DoneRows::Keep).await.unwrap().is_empty());
        let found = counted.statements();
        assert_eq!(found.len(), 1, "{found:?}");
    }
    let taken = counted.take(100).await;
    let done = |taken: &Taken| Settlement::of(taken, Outcome::Done);
    let mut settlements: Vec<_> = taken.iter().map(done).collect();
    settlements[17].lease.token = Token(1);
    settlements[18].lease.seq = 999_999;
    counted.statements();

    let lost = counted.store.settle(&settlements, DoneRows::Keep).await.unwrap();

    assert_eq!(lost, [taken[17].lease.seq, 999_999]);
    assert!(counted.statements().len() <= 4);
    counted.store.close().await;
}

/// D5: what waits is read back by one statement, and leases are renewed by one.
pub(crate) async fn read_backs_and_renewals_are_one_statement(stage: &MySqlStage) {
    let counted = Counted::new(stage).await;
    let events = orders_placed(100);
    let birth = Birth { owner: Owner::new("orders", 1), token: Token(17), lease_for: LONG };
    counted.write(&events, Some(&birth)).await;
    let ids: Vec<String> = events.iter().map(|event| event.id().to_owned()).collect();
    counted.statements();

    let found = counted.store.read_back(birth.token, &ids).await.unwrap();
    assert_eq!((found.len(), counted.statements().len()), (100, 1));

    let lease = |found: &Found| {
        let token = birth.token.of_event(&found.event_id);
        Lease { seq: found.seq, token, attempts: 0, starts: 0 }
    };
    let leases: Vec<_> = found.iter().map(lease).collect();
    assert!(counted.store.renew(&leases, LONG).await.unwrap().is_empty());
    assert_eq!(counted.statements().len(), 1);
    counted.store.close().await;
}

/// An owner of all partitions.
async fn owner(store: &MySqlStore) -> (Instance, Vec<Holding>) {
    let (relay, all) = (unnamed("relay"), (0..=u8::MAX).collect::<Vec<_>>());
    store.join(&relay).await.unwrap();
    let held = store.acquire(&relay, &all).await.unwrap();
    (relay, held)
}

/// O5: a fetch is one statement, however many partitions it visits, and hundreds in flight make no second one.
pub(crate) async fn a_fetch_is_one_statement(stage: &MySqlStage) {
    let counted = Counted::new(stage).await;
    let (_, held) = owner(&counted.store).await;
    counted.write(&orders_placed(300), None).await;
    counted.statements();

    for visited in [1, 2, 17, 256] {
        let visits: Vec<_> = held[..visited].iter().map(visit).collect();
        let found = counted.store.fetch(&visits, 10).await.unwrap();
        let visits: Vec<_> = held[..visited].iter().map(|held| visit_without(held, &found)).collect();
        assert!(counted.store.fetch(&visits, 10).await.unwrap().is_empty());
        counted.store.due(&visits, 10).await.unwrap();
        counted.store.below(&visits, 10).await.unwrap();
        counted.store.blocked(&[7, 8]).await.unwrap();
        counted.store.aside_of(&visits[0], "order-1", 10).await.unwrap();

        let statements = counted.statements();
        assert_eq!(statements.len(), 6, "{statements:?}");
    }
    counted.store.close().await;
}

/// D12: outcomes of one kind are one statement for every 250 of them under ownership too, however many partitions they
/// come from; all but DONE, with or without an attempt, lock these before, and parked keys cost one more.
pub(crate) async fn outcomes_of_owners_are_few_statements(stage: &MySqlStage) {
    let counted = Counted::new(stage).await;
    let (_, held) = owner(&counted.store).await;
    let visits: Vec<_> = held.iter().map(visit).collect();

    for (outcome, expected) in owned_outcomes().into_iter().zip([1, 1, 2, 2, 2, 2, 2, 3]) {
        counted.write(&orders_placed(100), None).await;
        let fetched = counted.store.fetch(&visits, 100).await.unwrap();
        let settle = |fetched: &Fetched| Settlement::of(&fetched.taken, outcome.clone());
        let settlements: Vec<_> = fetched.iter().map(settle).collect();
        counted.statements();

        assert!(counted.store.settle(&settlements, DoneRows::Keep).await.unwrap().is_empty());

        let statements = counted.statements();
        assert_eq!(statements.len(), expected, "{outcome:?}: {statements:?}");
    }
    counted.write(&orders_placed(500), None).await;
    let fetched = counted.store.fetch(&visits, 100).await.unwrap();
    let done: Vec<_> = fetched.iter().map(|fetched| Settlement::of(&fetched.taken, Outcome::Done)).collect();
    counted.statements();
    assert!(counted.store.settle(&done, DoneRows::Keep).await.unwrap().is_empty());
    assert_eq!((done.len(), counted.statements().len()), (500, 2));
    counted.store.close().await;
}

/// O4: a heartbeat of one who owns all partitions is six statements at most, and so is taking them over.
pub(crate) async fn a_heartbeat_is_few_statements(stage: &MySqlStage) {
    let counted = Counted::new(stage).await;
    let (relay, held) = owner(&counted.store).await;
    let floors: Vec<_> = held.iter().map(|held| floor(held, 0)).collect();
    counted.statements();

    counted.store.beat(&relay, &floors).await.unwrap();
    assert!(counted.statements().len() <= 6);
    counted.store.release(&relay.owner, &floors).await.unwrap();
    assert_eq!(counted.statements().len(), 1);
    let all: Vec<u8> = (0..=u8::MAX).collect();
    assert_eq!(counted.store.acquire(&relay, &all).await.unwrap().len(), 256);
    assert!(counted.statements().len() <= 4);
    counted.store.close().await;
}

/// D12: once a row was found to be locked, the next settlement asks first and does not wait for it again.
pub(crate) async fn locked_row_is_waited_for_once(stage: &MySqlStage) {
    let counted = Counted::new(stage).await;
    counted.write(&orders_placed(1), None).await;
    let taken = counted.take(1).await;
    let done = [Settlement::of(&taken[0], Outcome::Done)];
    let mut holder = stage.connection().await;
    let lock = format!("SELECT seq FROM {}outbox_event FOR UPDATE", counted.prefix);
    holder.execute("START TRANSACTION").await.unwrap();
    sqlx::query(AssertSqlSafe(lock)).execute(&mut holder).await.unwrap();

    let waited = counted.store.settle(&done, DoneRows::Keep).await.unwrap_err();
    counted.statements();
    let asked = counted.store.settle(&done, DoneRows::Keep).await.unwrap_err();
    let statements = counted.statements();

    assert!(matches!((waited, asked), (StoreError::Locked { .. }, StoreError::Locked { .. })));
    assert!(statements.iter().all(|sql| sql.starts_with("SELECT")), "{statements:?}");
    counted.store.close().await;
}
