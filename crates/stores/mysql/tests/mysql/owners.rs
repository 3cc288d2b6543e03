//! What owners meet on this database: changes of the mode that were cut off, late commits, locks, and rows by hand.

use std::sync::Arc;
use std::time::Duration;

use pillarbox::store::{
    DoneRows, EventStore, Fetched, Holding, Instance, Mode, Outcome, Ownership, Settlement, Status,
    StoreError, TxStore, Visit,
};
use pillarbox::{Event, partition_of};
use pillarbox_mysql::MySqlStore;
use pillarbox_testkit::conformance::ownership::{
    acquire, behind_key, dying, fetch, fetch_one, floor, join, joined, own, owner_of, parked, place, seq,
    unnamed, visit,
};
use pillarbox_testkit::conformance::{NONE, order_placed, settle, stored, take, write};
use sqlx::{AssertSqlSafe, Executor};
use tokio::time::timeout;

use crate::stage::MySqlStage;

const OF_CLAIMS: &str = "outbox_event_pending (is_pending, available_at, seq)";
const OF_OWNERSHIP: [&str; 3] = [
    "outbox_event_fresh (status, event_partition, seq)",
    "outbox_event_aside (aside_in, available_at, seq)",
    "outbox_event_key (aside_in, aside_key, seq)",
];

/// What belongs to a mode: the row and the indexes that are there.
async fn traces(stage: &MySqlStage) -> (String, Vec<String>) {
    let mode = sqlx::query_scalar("SELECT value FROM outbox_meta WHERE name = 'mode'");
    let mode = mode.fetch_one(stage.store.pool()).await.unwrap();
    let indexes = "SELECT DISTINCT CAST(index_name AS CHAR) FROM information_schema.statistics
        WHERE table_schema = DATABASE() AND table_name = 'outbox_event'";
    let mut indexes: Vec<String> = sqlx::query_scalar(indexes).fetch_all(stage.store.pool()).await.unwrap();
    let common = ["PRIMARY", "outbox_event_id", "outbox_event_dead", "outbox_event_aggregate"];
    indexes.retain(|index| !common.contains(&index.as_str()));
    indexes.sort_unstable();
    (mode, indexes)
}

async fn assert_mode(stage: &MySqlStage, mode: Mode) {
    let indexes = match mode {
        Mode::Claims => vec!["outbox_event_pending"],
        Mode::Ownership => vec!["outbox_event_aside", "outbox_event_fresh", "outbox_event_key"],
    };
    assert_eq!(traces(stage).await, (mode.to_string(), indexes.into_iter().map(str::to_owned).collect()));
}

fn in_mode(mode: Mode) -> Instance {
    Instance { mode, ..unnamed("relay") }
}

/// O3: a change of the mode that was cut off after any step is completed by the next who joins, or changed back.
pub(crate) async fn change_that_was_cut_off_is_completed(stage: &MySqlStage) {
    write(stage, &[order_placed("order-17")]).await;
    let add = OF_OWNERSHIP.map(|index| format!("ADD KEY {index}")).join(", ");
    let drop = OF_OWNERSHIP.map(|index| format!("DROP KEY {}", index.split(' ').next().unwrap())).join(", ");

    for mode in [Mode::Ownership, Mode::Claims] {
        for half_done in
            ["DO 0".to_owned(), format!("ALTER TABLE outbox_event {add}, DROP KEY outbox_event_pending")]
        {
            stage.run("UPDATE outbox_meta SET value = 'to ownership' WHERE name = 'mode'").await;
            stage.run(&half_done).await;
            let stays_out = stage.store.beat(&in_mode(mode), &[]).await.unwrap_err().to_string();
            assert!(stays_out.contains("is being changed to `ownership`"), "{stays_out}");

            join(stage, &dying(&in_mode(mode))).await;

            assert_mode(stage, mode).await;
            stage.store.migrate_to(Mode::Claims).await.unwrap();
            assert_mode(stage, Mode::Claims).await;
        }
    }
    stage.run(&format!("ALTER TABLE outbox_event {add}")).await;
    stage.run(&format!("ALTER TABLE outbox_event {drop}, DROP KEY outbox_event_pending")).await;
    let text = stage.store.take(take(1)).await.unwrap_err().to_string();
    assert!(text.contains("`pillarbox migrate --mode claims`"), "{text}");
    stage.store.migrate_to(Mode::Claims).await.unwrap();
    assert_eq!(stage.store.take(take(1)).await.unwrap().events.len(), 1, "{OF_CLAIMS} is made again");
}

/// O3: instances that join at once change the mode once, and all are members.
pub(crate) async fn changes_at_once_agree(stage: &MySqlStage) {
    let mut stores = Vec::new();
    for _ in 0..4 {
        stores.push(stage.options().connect().await.unwrap());
    }

    let joining = stores.iter().cloned().enumerate().map(|(number, store)| {
        tokio::spawn(async move { store.join(&unnamed(&format!("relay-{number}"))).await.map(drop) })
    });
    for joined in joining.collect::<Vec<_>>() {
        joined.await.unwrap().unwrap();
    }

    assert_mode(stage, Mode::Ownership).await;
    assert_eq!(stage.number("SELECT COUNT(*) FROM outbox_instance").await, 4);
    for store in stores {
        store.close().await;
    }
}

/// O3: an operator changes the mode while nobody of the other is alive, and ends what is held no earlier.
pub(crate) async fn operator_changes_the_mode(stage: &MySqlStage) {
    let (relay, held) = owner_of(stage, "order-17").await;
    let head = place(stage, &held, "order-17").await;
    settle(stage, &head.taken, parked()).await;

    let refused = stage.store.migrate_to(Mode::Claims).await.unwrap_err();
    assert!(matches!(&refused, StoreError::Config(text) if text.contains("`relay`")), "{refused:?}");
    assert_eq!(stage.store.migrate_to(Mode::Ownership).await.unwrap(), 2);
    assert_eq!(stage.number("SELECT COUNT(*) FROM outbox_parked").await, 1);
    assert_eq!(stage.store.beat(&relay, &[]).await.unwrap().held, [held]);

    stage.store.leave(&relay.owner).await.unwrap();
    assert_eq!(stage.store.migrate_to(Mode::Claims).await.unwrap(), 2);
    assert_mode(stage, Mode::Claims).await;
    assert_eq!(stage.number("SELECT COUNT(*) FROM outbox_parked").await, 0);
}

/// O5: a connection that was lost between two heartbeats is no secret, though a new one could be had at once: the server
/// may be another since, and floors from before must not be told to it.
pub(crate) async fn heartbeat_tells_of_a_lost_connection_once(stage: &MySqlStage) {
    let relay = joined(stage, "relay").await;
    // One that was used a moment ago is not asked whether it is still there.
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    stage.cut_connections().await;

    let told = stage.store.beat(&relay, &[]).await.unwrap_err();

    assert!(told.is_transient(), "{told:?}");
    assert_eq!(stage.store.beat(&relay, &[]).await.unwrap().members.len(), 1);
}

/// O1: an event whose transaction stays open for longer than was said is passed by the closed number, and found below it.
pub(crate) async fn very_late_commit_is_found_below(stage: &MySqlStage) {
    let (_, held) = owner_of(stage, "order-17").await;
    let hasty = stage.options().longest_transaction(Duration::ZERO).connect().await.unwrap();
    let late = order_placed("order-17");
    let mut open = stage.store.begin().await.unwrap();
    stage.store.insert(&mut open, std::slice::from_ref(&late), None).await.unwrap();

    let closed = hasty.numbers().await.unwrap().closed;
    assert_eq!(stage.store.numbers().await.unwrap().closed, 0, "ten seconds have not passed");
    MySqlStore::commit(open).await.unwrap();

    let passed = Visit { floor: closed, ..visit(&held) };
    assert!(hasty.fetch(std::slice::from_ref(&passed), 10).await.unwrap().is_empty());
    let below = hasty.below(&[passed], 10).await.unwrap();
    assert_eq!(below[0].taken.event_id, late.id());
    hasty.close().await;
}

/// O5, S10: outcomes but DONE wait for one who is just taking over the partition, and are lost then.
pub(crate) async fn stale_outcome_never_comes_after_the_next_owner(stage: &MySqlStage) {
    let (_, held) = owner_of(stage, "order-17").await;
    let fetched = place(stage, &held, "order-17").await;
    let mut taking_over = stage.connection().await;
    taking_over.execute("START TRANSACTION").await.unwrap();
    let take_over =
        format!("UPDATE outbox_partition SET epoch = epoch + 1 WHERE event_partition = {}", held.partition);
    taking_over.execute(AssertSqlSafe(take_over)).await.unwrap();

    let (store, settlement) = (Arc::clone(&stage.store), Settlement::of(&fetched.taken, parked()));
    let settling = tokio::spawn(async move { store.settle(&[settlement], DoneRows::Keep).await });
    tokio::pin!(settling);
    timeout(Duration::from_millis(300), &mut settling).await.expect_err("it waits for the partition");
    taking_over.execute("COMMIT").await.unwrap();

    assert_eq!(settling.await.unwrap().unwrap(), [seq(&fetched)]);
    assert_eq!(stored(stage, &fetched.taken.event_id).await.status, Ok(Status::New));
    assert_eq!(stage.number("SELECT COUNT(*) FROM outbox_parked").await, 0);
}

/// W9, O3: a row by hand is read in the partition that the trigger gave it.
pub(crate) async fn row_by_hand_is_read(stage: &MySqlStage) {
    let (_, held) = owner_of(stage, "order-17").await;
    let insert = "INSERT INTO outbox_event (event_id, event_type, payload, event_key) VALUES";

    stage.run(&format!("{insert} ('by-hand', 'OrderPlaced', '{{}}', 'order-17')")).await;

    assert_eq!(
        stage.number("SELECT CAST(event_partition AS SIGNED) FROM outbox_event").await,
        i64::from(held.partition)
    );
    assert_eq!(fetch_one(stage, &held).await.taken.event_id, "by-hand");
}

/// O3: rows without a partition get one however many there are, those too that were set aside or dead before; one that
/// somebody has locked holds up nobody.
pub(crate) async fn every_row_is_adopted(stage: &MySqlStage) {
    stage.run("DROP TRIGGER outbox_event_partition").await;
    let instance = joined(stage, "relay").await;
    let held = acquire(stage, &instance, &(0..=u8::MAX).collect::<Vec<_>>()).await;
    let insert = "INSERT INTO outbox_event (event_id, event_type, payload, status)
        WITH RECURSIVE number (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM number WHERE n < 900)
        SELECT CONCAT('event-', ?, '-', n), 'OrderPlaced', '{}', ? FROM number";
    for status in [0, 0, 2] {
        let part = stage.number("SELECT COUNT(*) FROM outbox_event").await;
        sqlx::query(insert).bind(part).bind(status).execute(stage.store.pool()).await.unwrap();
    }
    let mut holder = stage.connection().await;
    holder.execute("START TRANSACTION").await.unwrap();
    holder.execute("SELECT seq FROM outbox_event WHERE seq = 17 FOR UPDATE").await.unwrap();
    let visits: Vec<_> = held.iter().map(visit).collect();
    let before = stage.store.fetch(&visits, 100).await.unwrap();
    holder.execute("ROLLBACK").await.unwrap();

    let fetched = stage.store.fetch(&visits, 100).await.unwrap();

    assert_eq!(before.len(), 1_799);
    assert_eq!(fetched.len(), 1_800);
    assert_eq!(stage.number("SELECT COUNT(*) FROM outbox_event WHERE event_partition IS NULL").await, 0);
    assert_eq!(stage.store.due(&visits, 1_000).await.unwrap().events.len(), 900);
}

/// O5, S5: owners that beat, acquire, give back and settle at the same time never hear of a deadlock.
pub(crate) async fn owners_hide_their_deadlocks(stage: &MySqlStage) {
    const STORES: u8 = 4;
    let events: Vec<Event> = (0..800).map(|n| order_placed(&format!("order-{n}"))).collect();
    write(stage, &events).await;
    let mut owners = Vec::new();
    for number in 0..STORES {
        let store = Arc::new(stage.options().connect().await.unwrap());
        let instance = unnamed(&format!("relay-{number}"));
        store.join(&instance).await.unwrap();
        let mine: Vec<u8> = (0..=u8::MAX).filter(|partition| partition % STORES == number).collect();
        // Before anybody works: what is free then would go to whoever asks first.
        let held = store.acquire(&instance, &mine).await.unwrap();
        owners.push((number, store, held));
    }

    let working = owners.iter().cloned().map(|(number, store, held)| tokio::spawn(work(number, store, held)));
    let mut done = 0;
    for worker in working.collect::<Vec<_>>() {
        done += worker.await.unwrap();
    }

    assert_eq!(done, events.len());
    for (_, store, _) in owners {
        store.close().await;
    }
}

/// Settles what is fresh in the partitions that it holds, and meanwhile beats and asks for partitions of others.
async fn work(number: u8, store: Arc<MySqlStore>, held: Vec<Holding>) -> usize {
    let instance = unnamed(&format!("relay-{number}"));
    let all: Vec<u8> = (0..=u8::MAX).collect();
    let beating = async {
        for _ in 0..20 {
            assert_eq!(store.beat(&instance, &[floor(&held[0], 0)]).await.unwrap().held.len(), held.len());
            store.acquire(&instance, &all[..usize::from(number)]).await.unwrap();
            store.release(&instance.owner, &[]).await.unwrap();
        }
    };
    let (done, ()) = tokio::join!(settle_all_of(&store, &held), beating);
    done
}

async fn settle_all_of(store: &MySqlStore, held: &[Holding]) -> usize {
    let visits: Vec<_> = held.iter().map(visit).collect();
    let mut done = 0;
    loop {
        let mut fetched = store.fetch(&visits, 1).await.unwrap();
        fetched.extend(store.due(&visits, 50).await.unwrap().events);
        if fetched.is_empty() {
            return done;
        }
        let settlements: Vec<_> = fetched
            .iter()
            .map(|Fetched { taken, .. }| {
                Settlement::of(taken, outcome_of(taken.lease.seq, taken.lease.attempts))
            })
            .collect();
        assert!(store.settle(&settlements, DoneRows::Keep).await.unwrap().is_empty());
        done += settlements.iter().filter(|settlement| settlement.outcome == Outcome::Done).count();
    }
}

fn outcome_of(seq: i64, attempts: u32) -> Outcome {
    match (seq % 3, attempts) {
        (0, 0) => Outcome::Retry { after: Duration::ZERO, error: "no".into(), spent: true },
        _ => Outcome::Done,
    }
}

/// O2: a wait without an end survives the way to the other mode and back as an event that is due.
pub(crate) async fn endless_wait_ends_with_its_mode(stage: &MySqlStage) {
    let (relay, held) = owner_of(stage, "order-17").await;
    let waiting = place(stage, &held, "order-17").await;
    assert_eq!(settle(stage, &waiting.taken, behind_key()).await, NONE);
    stage.store.leave(&relay.owner).await.unwrap();

    stage.store.migrate_to(Mode::Claims).await.unwrap();
    stage.store.migrate_to(Mode::Ownership).await.unwrap();

    join(stage, &relay).await;
    let held = own(stage, &relay, partition_of("order-17")).await;
    assert!(fetch(stage, &held).await.is_empty());
    let due = stage.store.due(&[visit(&held)], 10).await.unwrap().events;
    assert_eq!(due[0].taken.event_id, waiting.taken.event_id);
}
