//! The mode of a file: its indexes come and go with it, and it changes at once or not at all.

use pillarbox::store::{
    Administration, EventStore, Instance, Mode, Outcome, Owner, Ownership, Selection, StoreError,
};
use pillarbox_sqlite::SqliteStore;

use crate::orders::{LONG, Orders, claim, order_placed, settle, take, write};
use crate::relays::{instance, owner_of};

#[track_caller]
fn refused_for_mode<T: std::fmt::Debug>(answer: Result<T, StoreError>) -> String {
    match answer {
        Err(StoreError::Config(text)) => text,
        other => panic!("not refused for the mode: {other:?}"),
    }
}

async fn indexes(store: &SqliteStore) -> Vec<String> {
    let select = "SELECT sql FROM sqlite_schema WHERE type = 'index' AND sql IS NOT NULL ORDER BY name";
    sqlx::query_scalar(select).fetch_all(store.pool()).await.unwrap()
}

/// O3: a mode has its own indexes, and those of a new table are there again after a change to and fro.
#[tokio::test]
async fn indexes_belong_to_the_mode() {
    let orders = Orders::new();
    let store = orders.store().await;
    let of_claims = indexes(&store).await;

    store.migrate_to(Mode::Ownership).await.unwrap();
    let of_ownership = indexes(&store).await;
    store.migrate_to(Mode::Ownership).await.unwrap();
    assert_eq!(indexes(&store).await, of_ownership);
    store.migrate_to(Mode::Claims).await.unwrap();

    assert_eq!(indexes(&store).await, of_claims);
    let has = |indexes: &[String], name: &str| indexes.iter().any(|index| index.contains(name));
    for (name, is_of_claims) in [("pending", true), ("fresh", false), ("aside", false), ("held", false)] {
        let name = format!(" outbox_event_{name} ");
        assert_eq!((has(&of_claims, &name), has(&of_ownership, &name)), (is_of_claims, !is_of_claims));
    }
}

/// O3: instances that start at the same time on a new file agree on the mode.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn joins_at_the_same_time_agree() {
    let orders = Orders::new();
    orders.store().await;

    let joining = (0..6).map(|number| {
        let options = orders.options();
        tokio::spawn(async move {
            let store = options.connect().await.unwrap();
            store.join(&instance(&format!("relay-{number}"), Mode::Ownership)).await
        })
    });
    let joining: Vec<_> = joining.collect();

    for joined in joining {
        assert_eq!(joined.await.unwrap().unwrap(), []);
    }
}

/// O3: a store that has worked in one mode is refused as soon as another store has changed it, and works again after.
#[tokio::test]
async fn change_of_mode_is_seen_by_other_stores() {
    let orders = Orders::new();
    let (here, elsewhere) = (orders.store().await, orders.store().await);
    assert!(claim(&elsewhere, 10).await.is_empty());

    here.migrate_to(Mode::Ownership).await.unwrap();
    let text = refused_for_mode(elsewhere.take(take(10)).await);
    assert!(text.contains("its mode is `ownership`"), "{text}");
    let (_, visit) = owner_of(&elsewhere, "order-17").await;
    elsewhere.fetch(std::slice::from_ref(&visit), 10).await.unwrap();
    elsewhere.leave(&Owner::new("relay", 1)).await.unwrap();
    here.migrate_to(Mode::Claims).await.unwrap();

    let text = refused_for_mode(elsewhere.fetch(&[visit], 10).await);
    assert!(text.contains("its mode is `claims`"), "{text}");
    assert!(claim(&elsewhere, 10).await.is_empty());
}

/// O3: an operator changes no mode while instances of the other are alive, and is told their names.
#[tokio::test]
async fn operator_is_told_who_is_alive() {
    let orders = Orders::new();
    let store = orders.store().await;
    store.join(&instance("relay-1", Mode::Ownership)).await.unwrap();

    let text = refused_for_mode(store.migrate_to(Mode::Claims).await);
    assert!(text.contains("`relay-1`") && text.contains("`claims`"), "{text}");
    store.migrate_to(Mode::Ownership).await.unwrap();
    store.leave(&Owner::new("relay-1", 1)).await.unwrap();

    store.migrate_to(Mode::Claims).await.unwrap();
    assert!(claim(&store, 10).await.is_empty());
}

/// O5: a table that gives numbers of deleted rows again has no owners, and stays as it was.
#[tokio::test]
async fn numbers_must_not_be_given_again() {
    let orders = Orders::new();
    let reused = include_str!("../../migrations/0001_outbox.sql").replace(" AUTOINCREMENT", "");
    orders.execute(reused).await;
    orders.execute("INSERT INTO outbox_meta VALUES ('schema_version', '1')").await;
    let store = orders.store().await;
    write(&store, &[order_placed("order-17")]).await;

    let joined = refused_for_mode(store.join(&instance("relay", Mode::Ownership)).await);
    let migrated = refused_for_mode(store.migrate_to(Mode::Ownership).await);

    assert!(joined.contains("`AUTOINCREMENT`"), "{joined}");
    assert_eq!(migrated, joined);
    assert_eq!(claim(&store, 10).await.len(), 1);
    store.join(&instance("relay", Mode::Claims)).await.unwrap();
}

/// O3: an index that somebody dropped is not missed in silence, and is made again.
#[tokio::test]
async fn dropped_index_is_made_again() {
    let orders = Orders::new();
    let store = orders.store().await;
    let (_, visit) = owner_of(&store, "order-17").await;
    orders.execute("DROP INDEX outbox_event_fresh").await;

    let text = refused_for_mode(store.fetch(std::slice::from_ref(&visit), 10).await);
    assert!(text.contains("`pillarbox migrate --mode ownership`"), "{text}");
    store.migrate_to(Mode::Ownership).await.unwrap();

    assert!(store.fetch(&[visit], 10).await.unwrap().is_empty());
}

/// O3: a mode that a newer program has set is left alone.
#[tokio::test]
async fn unknown_mode_is_left_alone() {
    let orders = Orders::new();
    let store = orders.store().await;
    orders.execute("INSERT INTO outbox_meta VALUES ('mode', 'stream')").await;

    for mode in [Mode::Claims, Mode::Ownership] {
        let text = refused_for_mode(store.join(&instance("relay", mode)).await);
        assert!(text.contains("`stream`"), "{text}");
        refused_for_mode(store.beat(&instance("relay", mode), &[]).await);
        refused_for_mode(store.migrate_to(mode).await);
    }
}

/// O3: rows of the time before there were partitions are found by the owners of theirs, whatever has become of them.
#[tokio::test]
async fn rows_of_the_first_version_are_adopted() {
    let orders = Orders::new();
    orders.first_version().await;
    let insert = "INSERT INTO outbox_event (event_id, event_type, event_key, payload, status) VALUES
        ('retried', 'OrderPlaced', 'order-17', '{}', 2),
        ('dead', 'OrderPlaced', 'order-17', '{}', 3),
        ('done', 'OrderPlaced', 'order-17', '{}', 1),
        ('fresh', 'OrderPlaced', 'order-17', '{}', 0)";
    orders.execute(insert).await;
    let store = orders.store().await;

    let (_, visit) = owner_of(&store, "order-17").await;

    let blocked = store.blocked(&[visit.partition]).await.unwrap();
    assert_eq!((blocked.len(), blocked[0].first), (1, Some(1)));
    assert_eq!(store.replay(&Selection::Numbers { from: 1, to: 9 }).await.unwrap(), 1);
    let due = store.due(std::slice::from_ref(&visit), 10).await.unwrap().events;
    let due: Vec<&str> = due.iter().map(|fetched| fetched.taken.event_id.as_str()).collect();
    assert_eq!(due, ["retried", "dead"]);
    let fresh = store.fetch(&[visit], 10).await.unwrap();
    assert_eq!(fresh[0].taken.event_id, "fresh");
    let partitions: Vec<Option<i64>> =
        sqlx::query_scalar("SELECT event_partition FROM outbox_event WHERE event_id = 'done'")
            .fetch_all(store.pool())
            .await
            .unwrap();
    assert_eq!(partitions, [None]);
}

/// O5: a name is resumed where partitions are owned too, and has no leases of takes there.
#[tokio::test]
async fn name_is_resumed_in_both_modes() {
    let orders = Orders::new();
    let store = orders.store().await;
    write(&store, &[order_placed("order-17")]).await;
    assert_eq!(claim(&store, 10).await.len(), 1);
    let named = |mode, incarnation| {
        let owner = Owner::new("orders", incarnation);
        Instance { owner, is_named: true, ..instance("orders", mode) }
    };
    let (older, younger) = (named(Mode::Claims, 1), named(Mode::Ownership, 2));
    store.join(&older).await.unwrap();

    store.join(&younger).await.unwrap();

    assert_eq!(store.resume(&younger.owner).await.unwrap(), 0);
    let (older, younger) = (older.owner, younger.owner);
    assert!(store.is_current(&younger).await.unwrap() && !store.is_current(&older).await.unwrap());
}

/// S2: events are counted in both modes alike.
#[tokio::test]
async fn events_are_counted_in_both_modes() {
    let orders = Orders::new();
    let store = orders.store().await;
    let events: Vec<_> = (0..4).map(|order| order_placed(&format!("order-{order}"))).collect();
    write(&store, &events).await;
    let taken = claim(&store, 3).await;
    settle(&store, &taken[..1], Outcome::Done).await;
    settle(&store, &taken[1..2], Outcome::Retry { after: LONG, error: "no".into(), spent: true }).await;
    settle(&store, &taken[2..], Outcome::Dead { error: "never".into(), spent: true }).await;
    let in_claims = store.stats().await.unwrap();

    store.migrate_to(Mode::Ownership).await.unwrap();

    let counted = store.stats().await.unwrap();
    assert_eq!((counted.new, counted.retry, counted.dead, counted.done_estimate), (1, 1, 1, 1));
    assert_eq!((in_claims.new, in_claims.retry, in_claims.dead, in_claims.done_estimate), (1, 1, 1, 1));
    assert!(counted.oldest_due_for.unwrap() >= in_claims.oldest_due_for.unwrap());
}
