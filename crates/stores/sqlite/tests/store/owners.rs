//! Owners of partitions on files: several stores on one, and rows that others wrote.

use std::collections::BTreeSet;
use std::time::Duration;

use pillarbox::store::{
    DoneRows, EventStore, Fetched, Instance, Lease, Mode, Outcome, Ownership, Settlement, Taken, Token, Visit,
};
use pillarbox::{Event, PARTITIONS, partition_of};
use pillarbox_sqlite::SqliteStore;

use crate::orders::{Orders, order_placed, write};
use crate::relays::{instance, owner_of, owner_of_all};

fn ids(fetched: &[Fetched]) -> Vec<&str> {
    fetched.iter().map(|fetched| fetched.taken.event_id.as_str()).collect()
}

async fn settle(store: &SqliteStore, taken: &Taken, outcome: Outcome) -> Vec<i64> {
    store.settle(&[Settlement::of(taken, outcome)], DoneRows::Keep).await.unwrap()
}

/// O3: stores on one file that ask for everything at the same time get it all between them, and nothing twice.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stores_on_one_file_share_its_partitions() {
    let orders = Orders::new();
    orders.store().await.migrate_to(Mode::Ownership).await.unwrap();
    let asking = (0..4).map(|number| {
        let options = orders.options();
        tokio::spawn(async move {
            let store = options.connect().await.unwrap();
            let relay = instance(&format!("relay-{number}"), Mode::Ownership);
            store.join(&relay).await.unwrap();
            let mut given = Vec::new();
            for partition in 0..=u8::MAX {
                given.extend(store.acquire(&relay, &[partition]).await.unwrap());
            }
            given
        })
    });
    let asking: Vec<_> = asking.collect();

    let mut given = Vec::new();
    for answer in asking {
        given.extend(answer.await.unwrap().into_iter().map(|holding| holding.partition));
    }

    assert_eq!(given.len(), PARTITIONS);
    assert_eq!(given.into_iter().collect::<BTreeSet<_>>().len(), PARTITIONS);
}

/// O5, S10: an owner whose partition was taken over through another store is fenced off in its own.
#[tokio::test]
async fn owner_in_another_store_is_fenced_off() {
    let orders = Orders::new();
    let (here, elsewhere) = (orders.store().await, orders.store().await);
    let (relay, visit) = owner_of(&here, "order-17").await;
    write(&elsewhere, &[order_placed("order-17")]).await;
    let stale = here.fetch(std::slice::from_ref(&visit), 10).await.unwrap().remove(0);
    here.beat(&Instance { live_for: Duration::ZERO, ..relay }, &[]).await.unwrap();

    let other = instance("relay-2", Mode::Ownership);
    elsewhere.join(&other).await.unwrap();
    let taken_over = elsewhere.acquire(&other, &[visit.partition]).await.unwrap()[0];

    assert_eq!(settle(&here, &stale.taken, Outcome::Done).await, [stale.taken.lease.seq]);
    assert!(!here.start(&stale.taken).await.unwrap());
    let again = Visit { epoch: taken_over.epoch, ..visit };
    let current = elsewhere.fetch(&[again], 10).await.unwrap().remove(0);
    assert_eq!(settle(&elsewhere, &current.taken, Outcome::Done).await, [0; 0]);
}

/// O1: while another process gives rows their partitions, a fetch that comes back short has still seen everything.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn adoption_elsewhere_hides_nothing() {
    let orders = Orders::new();
    let (here, elsewhere) = (orders.store().await, orders.store().await);
    let (_, visit) = owner_of(&here, "order-17").await;
    let nothing = Visit { partition: visit.partition.wrapping_add(1), ..visit.clone() };
    let by_hand = "INSERT INTO outbox_event (event_id, event_type, payload) VALUES (lower(hex(randomblob(8))), 'OrderPlaced', '{}')";
    let mut connection = orders.connection().await;

    for round in 0..300 {
        write(&here, &[order_placed("order-17")]).await;
        sqlx::query(by_hand).execute(&mut connection).await.unwrap();
        let (visit, adopter, nothing) = (visit.clone(), elsewhere.clone(), nothing.clone());
        let adopting = tokio::spawn(async move { adopter.fetch(&[nothing], 10).await.unwrap() });
        let fetched = here.fetch(&[visit], 10).await.unwrap();
        adopting.await.unwrap();

        let placed: Vec<&Fetched> =
            fetched.iter().filter(|of| of.key.as_deref() == Some("order-17")).collect();
        assert_eq!(placed.len(), 1, "round {round}");
        for fetched in &fetched {
            assert_eq!(settle(&here, &fetched.taken, Outcome::Done).await, [0; 0]);
        }
    }
}

/// O1, O3: a row that was written by hand is read before a later event of its key.
#[tokio::test]
async fn row_without_a_partition_keeps_its_place() {
    let orders = Orders::new();
    let store = orders.store().await;
    let (_, visit) = owner_of(&store, "order-17").await;
    let by_hand = "INSERT INTO outbox_event (event_id, event_type, event_key, payload)
        VALUES ('by hand', 'OrderPlaced', 'order-17', '{}')";
    orders.execute(by_hand).await;
    let later = order_placed("order-17");
    write(&store, std::slice::from_ref(&later)).await;

    let fetched = store.fetch(&[visit], 10).await.unwrap();

    assert_eq!(ids(&fetched), ["by hand", later.id()]);
}

/// O3: however many rows have no partition, all have theirs before one is read.
#[tokio::test]
async fn many_rows_without_a_partition_are_adopted() {
    let orders = Orders::new();
    let store = orders.store().await;
    let (_, visits) = owner_of_all(&store).await;
    let by_hand = "WITH RECURSIVE n (seq) AS (VALUES (1) UNION ALL SELECT seq + 1 FROM n WHERE seq < 10500)
        INSERT INTO outbox_event (event_id, event_type, event_key, payload)
        SELECT 'event-' || seq, 'OrderPlaced', iif(seq % 2, 'order-' || (seq % 100), NULL), '{}' FROM n";
    orders.execute(by_hand).await;

    let fetched = store.fetch(&visits, 20_000).await.unwrap();

    assert_eq!(fetched.len(), 10_500);
    assert!(fetched.is_sorted_by_key(|fetched| fetched.taken.lease.seq));
    for Fetched { taken, key, .. } in &fetched {
        let (partition, _) = taken.lease.token.partition().unwrap();
        assert_eq!(partition, key.as_deref().map_or(taken.lease.seq as u8, partition_of));
    }
}

/// O3: a partition that does not exist is corrected, or nobody would ever read the row.
#[tokio::test]
async fn partition_that_is_none_is_corrected() {
    let orders = Orders::new();
    let store = orders.store().await;
    let (_, visits) = owner_of_all(&store).await;
    let by_hand =
        "INSERT INTO outbox_event (event_id, event_type, event_key, event_partition, payload) VALUES
        ('above', 'OrderPlaced', 'order-17', 256, '{}'), ('below', 'OrderPlaced', 'order-17', -1, '{}')";
    orders.execute(by_hand).await;

    let fetched = store.fetch(&visits, 10).await.unwrap();

    assert_eq!(ids(&fetched), ["above", "below"]);
    let token = fetched[0].taken.lease.token;
    assert_eq!(token.partition().unwrap().0, partition_of("order-17"));
    assert_eq!(settle(&store, &fetched[0].taken, Outcome::Done).await, [0; 0]);
}

/// O2, P3: a key that is no text is none: its row is read, and holds no other.
#[tokio::test]
async fn key_that_is_no_text_is_none() {
    let orders = Orders::new();
    let store = orders.store().await;
    let (_, visits) = owner_of_all(&store).await;
    let by_hand = "INSERT INTO outbox_event (event_id, event_type, event_key, payload)
        VALUES ('a', 'OrderPlaced', CAST(x'ff' AS TEXT), '{}')";
    orders.execute(by_hand).await;

    let fetched = store.fetch(&visits, 10).await.unwrap().remove(0);
    assert_eq!(fetched.key, None);
    assert!(fetched.taken.event.as_ref().unwrap_err().contains("`event_key`"));
    let later = Outcome::Retry { after: Duration::ZERO, error: "no".into(), spent: true };
    assert_eq!(settle(&store, &fetched.taken, later).await, [0; 0]);

    let all: Vec<u8> = (0..=u8::MAX).collect();
    assert_eq!(store.blocked(&all).await.unwrap(), []);
    assert_eq!(ids(&store.due(&visits, 10).await.unwrap().events), ["a"]);
}

/// P3: a status that does not exist comes to light where partitions are owned too.
#[tokio::test]
async fn status_that_does_not_exist_is_read() {
    let orders = Orders::new();
    let store = orders.store().await;
    let (_, visit) = owner_of(&store, "order-17").await;
    write(&store, &[order_placed("order-17")]).await;
    orders.execute("PRAGMA ignore_check_constraints = ON; UPDATE outbox_event SET status = 7").await;

    let fetched = store.fetch(&[visit], 10).await.unwrap().remove(0);

    assert!(fetched.taken.event.as_ref().unwrap_err().contains("`status`"));
    let dead = Outcome::Dead { error: "cannot be read".into(), spent: false };
    assert_eq!(settle(&store, &fetched.taken, dead).await, [0; 0]);
}

/// O6, S10: of two outcomes of one event in a batch the one whose lease holds is applied, whole, and the other not at
/// all.
#[tokio::test]
async fn stale_outcome_parks_no_key() {
    let orders = Orders::new();
    let store = orders.store().await;
    let (_, visit) = owner_of(&store, "order-17").await;
    write(&store, &[order_placed("order-17")]).await;
    let taken = store.fetch(std::slice::from_ref(&visit), 10).await.unwrap().remove(0).taken;
    let next = Token::of_partition(visit.partition, visit.epoch.next());
    let stale = Taken { lease: Lease { token: next, ..taken.lease }, ..taken.clone() };
    let error = "address unknown".to_owned();
    let settlements = [
        Settlement::of(&taken, Outcome::Dead { error: error.clone(), spent: true }),
        Settlement::of(&stale, Outcome::Parked { error, spent: true }),
    ];

    let lost = store.settle(&settlements, DoneRows::Keep).await.unwrap();

    assert_eq!(lost, [taken.lease.seq]);
    assert_eq!(store.blocked(&[visit.partition]).await.unwrap(), []);
}

/// O2, D12: one endless wait without a key is refused with all that came with it, and nothing is applied.
#[tokio::test]
async fn refused_wait_takes_back_its_batch() {
    let orders = Orders::new();
    let store = orders.store().await;
    let (_, visits) = owner_of_all(&store).await;
    let without_key = Event::of_json("OrderPlaced", "{}").unwrap();
    write(&store, &[order_placed("order-17"), without_key]).await;
    let fetched = store.fetch(&visits, 10).await.unwrap();
    let endless = Outcome::Aside { until: None, reason: "its key waits".into() };
    let settlements =
        [Settlement::of(&fetched[0].taken, Outcome::Done), Settlement::of(&fetched[1].taken, endless)];

    let refused = store.settle(&settlements, DoneRows::Delete).await.unwrap_err();

    assert!(refused.to_string().contains("set aside with an end"), "{refused}");
    assert_eq!(store.fetch(&visits, 10).await.unwrap().len(), 2);
}
