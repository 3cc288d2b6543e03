//! How many statements things cost, counted by what the driver logs.

use std::time::Duration;

use crate::orders::{LONG, Orders, order_placed, take, write};
use crate::relays::owner_of_all;
use pillarbox::Event;
use pillarbox::store::{
    Administration, Birth, DoneRows, EventStore, Outcome, Owner, Ownership, Settlement, Taken, Token,
    TxStore, WakeUp,
};
use pillarbox_sqlite::SqliteStore;
use pillarbox_testkit::statements;

/// A store whose statements are counted.
struct Counted {
    _orders: Orders,
    store: SqliteStore,
    prefix: &'static str,
}

impl Counted {
    async fn new(prefix: &'static str) -> Self {
        statements::keep();
        let orders = Orders::new();
        let store = orders.options().prefix(prefix).connect().await.unwrap();
        store.migrate().await.unwrap();
        let counted = Self { _orders: orders, store, prefix };
        counted.statements();
        counted
    }

    /// The statements on the outbox since the last call.
    fn statements(&self) -> Vec<String> {
        statements::with(self.prefix)
    }
}

fn orders_placed(count: usize) -> Vec<Event> {
    (0..count).map(|n| order_placed(&format!("order-{n}"))).collect()
}

fn done(taken: &Taken) -> Settlement {
    Settlement::of(taken, Outcome::Done)
}

/// W2: events are written by one statement up to 500, whatever their number is.
#[tokio::test]
async fn a_write_is_one_insert_for_500_events() {
    let counted = Counted::new("writes_").await;
    let store = &counted.store;
    let birth = Birth { owner: Owner::new("orders", 1), token: Token(17), lease_for: LONG };

    for (events, inserts) in [(1, 1), (2, 1), (10, 1), (500, 1), (501, 2), (1_000, 2)] {
        let mut tx = store.begin().await.unwrap();
        store.insert(&mut tx, &orders_placed(events), Some(&birth)).await.unwrap();
        SqliteStore::commit(tx).await.unwrap();

        let statements = counted.statements();
        assert_eq!(statements.len(), inserts, "{events} events: {statements:?}");
    }
}

/// D12, P5: draining costs three statements for a hundred events.
#[tokio::test]
async fn draining_costs_a_statement_for_many_events() {
    let counted = Counted::new("drains_").await;
    let store = &counted.store;
    let mut tx = store.begin().await.unwrap();
    store.insert(&mut tx, &orders_placed(1_000), None).await.unwrap();
    SqliteStore::commit(tx).await.unwrap();
    counted.statements();

    let mut drained = 0;
    while drained < 1_000 {
        let taken = store.take(take(100)).await.unwrap().events;
        let settlements: Vec<Settlement> = taken.iter().map(done).collect();
        assert!(store.settle(&settlements, DoneRows::Keep).await.unwrap().is_empty());
        drained += taken.len();
    }

    assert_eq!(counted.statements().len(), 30);
}

/// D12: outcomes of all kinds are recorded by one statement each.
#[tokio::test]
async fn a_settlement_is_a_statement_for_each_kind() {
    let counted = Counted::new("settles_").await;
    let store = &counted.store;
    let mut tx = store.begin().await.unwrap();
    store.insert(&mut tx, &orders_placed(100), None).await.unwrap();
    SqliteStore::commit(tx).await.unwrap();
    let taken = store.take(take(100)).await.unwrap().events;
    counted.statements();
    let outcomes = [
        Outcome::Done,
        Outcome::Retry { after: LONG, error: "no".into(), spent: true },
        Outcome::Aside { until: Some(LONG), reason: "held".into() },
        Outcome::Dead { error: "never".into(), spent: true },
        Outcome::Released,
    ];

    let settlements = taken.iter().zip(outcomes.iter().cycle());
    let settlements: Vec<Settlement> =
        settlements.map(|(taken, outcome)| Settlement::of(taken, outcome.clone())).collect();
    assert!(store.settle(&settlements, DoneRows::Keep).await.unwrap().is_empty());

    assert_eq!(counted.statements().len(), 5);
}

/// D12, P5: an owner of all partitions drains two statements for a hundred events, and a look at an empty table and a
/// heartbeat cost a handful.
#[tokio::test]
async fn owner_drains_by_two_statements_for_many_events() {
    let counted = Counted::new("owns_").await;
    let store = &counted.store;
    let (relay, visits) = owner_of_all(store).await;
    write(store, &orders_placed(1_000)).await;
    counted.statements();

    let (mut drained, mut rounds) = (0, 0);
    while drained < 1_000 {
        let fetched = store.fetch(&visits, 1).await.unwrap();
        let settlements: Vec<Settlement> = fetched.iter().map(|fetched| done(&fetched.taken)).collect();
        assert!(store.settle(&settlements, DoneRows::Keep).await.unwrap().is_empty());
        drained += fetched.len();
        rounds += 1;
    }
    assert_eq!(counted.statements().len(), 2 * rounds);

    assert!(store.fetch(&visits, 100).await.unwrap().is_empty());
    assert_eq!(counted.statements().len(), 1, "whether a row has no partition is part of it");
    assert!(store.due(&visits, 100).await.unwrap().events.is_empty());
    assert_eq!(counted.statements().len(), 1);
    store.beat(&relay, &[]).await.unwrap();
    assert_eq!(counted.statements().len(), 6);
}

/// D12: an owner's outcomes of all kinds, from many partitions, are recorded by one statement each, and one for the keys
/// that are parked.
#[tokio::test]
async fn owners_settlement_is_a_statement_for_each_kind() {
    let counted = Counted::new("ordered_").await;
    let store = &counted.store;
    let (_, visits) = owner_of_all(store).await;
    write(store, &orders_placed(120)).await;
    let fetched = store.fetch(&visits, 100).await.unwrap();
    counted.statements();
    let outcomes = [
        Outcome::Done,
        Outcome::Retry { after: LONG, error: "no".into(), spent: true },
        Outcome::Aside { until: None, reason: "its key waits".into() },
        Outcome::Dead { error: "never".into(), spent: true },
        Outcome::Parked { error: "never".into(), spent: true },
        Outcome::Released,
    ];

    let settlements = fetched.iter().zip(outcomes.iter().cycle());
    let settlements: Vec<Settlement> =
        settlements.map(|(fetched, outcome)| Settlement::of(&fetched.taken, outcome.clone())).collect();
    assert!(store.settle(&settlements, DoneRows::Delete).await.unwrap().is_empty());

    assert_eq!((settlements.len(), counted.statements().len()), (120, 7));
}

/// M5, M6: a census costs the same few statements whatever waits, and fewer where partitions are not owned.
#[tokio::test]
async fn a_census_is_few_statements() {
    let counted = Counted::new("census_").await;
    let store = &counted.store;
    store.census().await.unwrap();
    assert_eq!(counted.statements().len(), 2);
    owner_of_all(store).await;
    write(store, &orders_placed(300)).await;
    counted.statements();

    let census = store.census().await.unwrap();

    assert_eq!((census.pending(), counted.statements().len()), (300, 5));
}

/// W13: reading back is one statement for all that wait.
#[tokio::test]
async fn reading_back_is_one_statement() {
    let counted = Counted::new("reads_").await;
    let store = &counted.store;
    let events = orders_placed(50);
    let birth = Birth { owner: Owner::new("orders", 1), token: Token(17), lease_for: LONG };
    let mut tx = store.begin().await.unwrap();
    store.insert(&mut tx, &events, Some(&birth)).await.unwrap();
    SqliteStore::commit(tx).await.unwrap();
    counted.statements();
    let ids: Vec<String> = events.iter().map(|event| event.id().to_owned()).collect();

    let found = store.read_back(Token(17), &ids).await.unwrap();

    assert_eq!((found.len(), counted.statements().len()), (50, 1));
}

/// P5: watching an idle file touches no table after the first look.
#[tokio::test]
async fn watching_touches_no_table() {
    let counted = Counted::new("watches_").await;
    let look = || tokio::time::timeout(Duration::from_millis(100), counted.store.changed());
    assert!(look().await.is_err());
    counted.statements();

    assert!(look().await.is_err());

    assert_eq!(counted.statements(), [""; 0]);
}

/// Set in the process in which one test runs alone.
const ALONE: &str = "PILLARBOX_TEST_ALONE";

/// How many looks at the file were logged since the last call.
fn looks() -> usize {
    statements::with("data_version").len()
}

/// P5: an idle file is looked at no more than every 5 ms.
#[tokio::test]
async fn watching_an_idle_file_does_not_spin() {
    // A look does not say whose it is, and other tests watch too.
    if std::env::var_os(ALONE).is_none() {
        let mut alone = tokio::process::Command::new(std::env::current_exe().unwrap());
        alone.args(["statements::watching_an_idle_file_does_not_spin", "--exact"]).env(ALONE, "1");
        let output = alone.output().await.unwrap();
        return assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    }
    let counted = Counted::new("paces_").await;
    let watch = |time| tokio::time::timeout(time, counted.store.changed());
    let mut looked = 0;
    while looked < 250 {
        assert!(watch(Duration::from_millis(50)).await.is_err());
        looked += looks();
    }

    let began = std::time::Instant::now();
    assert!(watch(Duration::from_millis(600)).await.is_err());
    let (looked, most) = (looks(), began.elapsed().as_millis() as usize / 5 * 3 / 2);

    assert!((1..=most).contains(&looked), "{looked} looks, {most} are many");
}
