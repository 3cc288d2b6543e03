//! A store with faults, and what the engine makes of it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pillarbox::store::{
    Administration, Birth, CommitError, DoneRows, EventStore, Instance, Mode, Outcome, Owner, Ownership,
    Settlement, Status, Take, Token, TxStore,
};
use pillarbox::{Delivery, Event, ListenerError, MemoryStore, Outbox, Retry};
use pillarbox_testkit::faulty::{Call, Effect, Fault, Faults, FaultyStore, Then};
use pillarbox_testkit::paused;

/// Faults by call, used up one after the other.
#[derive(Default)]
struct Planned(Mutex<BTreeMap<Call, Vec<Fault>>>);

impl Planned {
    fn new(call: Call, fault: Fault) -> Arc<Self> {
        Self::repeated(call, fault, 1)
    }

    fn repeated(call: Call, fault: Fault, times: usize) -> Arc<Self> {
        Arc::new(Self(Mutex::new(BTreeMap::from([(call, vec![fault; times])]))))
    }
}

impl Faults for Planned {
    fn next(&self, call: Call) -> Fault {
        let mut planned = self.0.lock().expect("no test panics while it holds this");
        planned.get_mut(&call).and_then(Vec::pop).unwrap_or(Fault::NONE)
    }

    fn took_effect(&self, _effect: Effect<'_>) {}
}

fn order_placed(id: &str) -> Event {
    Event::builder("OrderPlaced").id(id).json_text("{}").build().expect("the event is valid")
}

/// Inserts an event as an instance that died over it `starts` times would have left it.
async fn leave_behind(store: &MemoryStore, id: &str, starts: u32) {
    let owner = Owner::new("died", 1);
    let birth = Birth { owner: owner.clone(), token: Token(1), lease_for: Duration::ZERO };
    let mut tx = store.open();
    store
        .insert(tx.connection(), &[order_placed(id)], Some(&birth))
        .await
        .expect("the memory store does not fail");
    tx.commit().expect("the memory store does not fail");
    for token in 2..=i64::from(starts) {
        let take = Take {
            owner: owner.clone(),
            token: Token(token),
            limit: 100,
            lease_for: Duration::ZERO,
            skip_recent: Duration::ZERO,
            sweep: false,
        };
        store.take(take).await.expect("the memory store does not fail");
    }
}

/// W13: an answer that is lost says nothing about the effect.
#[tokio::test]
async fn commit_whose_answer_is_lost_has_happened_or_not() {
    for (then, is_there) in [(Then::FailAfter, true), (Then::FailBefore, false)] {
        let memory = MemoryStore::new();
        let faults = Planned::new(Call::Commit, Fault { then, ..Fault::NONE });
        let store = FaultyStore::new(memory.clone(), faults);
        let mut tx = store.begin().await.unwrap();
        let connection = FaultyStore::<MemoryStore>::connection_mut(&mut tx);
        store.insert(connection, &[order_placed("order-17")], None).await.unwrap();

        let committed = FaultyStore::<MemoryStore>::commit(tx).await;

        assert!(matches!(committed, Err(CommitError::Unknown { .. })), "{committed:?}");
        assert_eq!(memory.find("order-17").await.unwrap().is_some(), is_there);
    }
}

/// Q3: nothing of a dead process reaches the store, not even what was on its way.
#[tokio::test(start_paused = true)]
async fn cut_stops_a_call_that_waits_before_its_effect() {
    let memory = MemoryStore::new();
    leave_behind(&memory, "order-17", 1).await;
    let taken = memory.find("order-17").await.unwrap().unwrap();
    let lease = pillarbox::store::Lease { seq: taken.seq, token: Token(1), attempts: 0, starts: 0 };
    let slow = Fault { before: Duration::from_secs(1), ..Fault::NONE };
    let store = FaultyStore::new(memory.clone(), Planned::new(Call::Settle, slow));
    let cutter = store.cutter();

    let settlements = [Settlement::new("order-17", lease, Outcome::Done)];
    let settled = tokio::select! {
        settled = store.settle(&settlements, DoneRows::Keep) => Some(settled),
        () = async {
            tokio::time::sleep(Duration::from_millis(500)).await;
            cutter.cut();
            tokio::time::sleep(Duration::from_secs(3_600)).await;
        } => None,
    };

    assert!(settled.is_none());
    assert_eq!(memory.find("order-17").await.unwrap().unwrap().status, Ok(Status::New));
}

/// P5, D12: suspects that come in company are given back and taken one by one, without a busy loop.
///
/// They fill the batch, so that the next take follows at once.
#[tokio::test(start_paused = true)]
async fn suspects_in_company_are_delivered_without_a_busy_loop() {
    let runtime = paused::runtime(17);
    let memory = MemoryStore::with_clock(runtime.clock.clone());
    for id in ["order-1", "order-2", "order-3"] {
        leave_behind(&memory, id, 2).await;
    }
    let delivered = Arc::new(AtomicUsize::new(0));
    let counter = delivered.clone();
    let slow = Fault { before: Duration::from_millis(5), ..Fault::NONE };
    let store = FaultyStore::new(memory, Planned::repeated(Call::Settle, slow, 1_000));

    let outbox = Outbox::builder(store)
        .runtime(runtime)
        .batch_size(3)
        .on("OrderPlaced", move |_: Delivery| {
            counter.fetch_add(1, Ordering::Relaxed);
            std::future::ready(Ok::<(), ListenerError>(()))
        })
        .start()
        .unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    outbox.close().await;

    assert_eq!(delivered.load(Ordering::Relaxed), 3);
    assert!(outbox.counts().takes < 20, "{:?}", outbox.counts());
}

/// D9: an event that is taken anew while its outcome is on its way back is not left leased to nobody.
#[tokio::test(start_paused = true)]
async fn event_taken_while_its_retry_is_being_recorded_is_delivered_at_once() {
    let runtime = paused::runtime(17);
    let memory = MemoryStore::with_clock(runtime.clock.clone());
    let slow = Fault { after: Duration::from_millis(50), ..Fault::NONE };
    let store = FaultyStore::new(memory.clone(), Planned::new(Call::Settle, slow));
    let calls = Arc::new(AtomicUsize::new(0));
    let counter = calls.clone();
    let outbox = Outbox::builder(store)
        .runtime(runtime)
        .poll_every(Duration::from_millis(10))
        .retry(Retry::fixed(Duration::from_millis(1)))
        .on("OrderPlaced", move |_: Delivery| {
            let is_first = counter.fetch_add(1, Ordering::Relaxed) == 0;
            std::future::ready(if is_first { Err(ListenerError::new("not in the mood")) } else { Ok(()) })
        })
        .start()
        .unwrap();

    let mut tx = outbox.begin().await.unwrap();
    outbox.write(&mut tx, order_placed("order-17")).await.unwrap();
    tx.commit().await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;

    let row = memory.find("order-17").await.unwrap().unwrap();
    assert_eq!((row.status, row.attempts, row.starts), (Ok(Status::Done), 1, 1));
    assert_eq!(calls.load(Ordering::Relaxed), 2);
}

/// W7, D11: repeating a release whose answer was lost does not give back what was taken since.
#[tokio::test(start_paused = true)]
async fn repeated_release_does_not_hit_a_later_take() {
    let runtime = paused::runtime(17);
    let memory = MemoryStore::with_clock(runtime.clock.clone());
    let lost = Fault { then: Then::FailAfter, after: Duration::from_millis(100), ..Fault::NONE };
    let store = FaultyStore::new(memory.clone(), Planned::new(Call::Settle, lost));
    let calls = Arc::new(AtomicUsize::new(0));
    let counter = calls.clone();
    let outbox = Outbox::builder(store)
        .runtime(runtime)
        .workers(1)
        .hot_queue(1)
        .poll_every(Duration::from_millis(10))
        .on("OrderPlaced", move |_: Delivery| {
            counter.fetch_add(1, Ordering::Relaxed);
            async {
                tokio::time::sleep(Duration::from_millis(200)).await;
                Ok::<(), ListenerError>(())
            }
        })
        .start()
        .unwrap();

    let mut tx = outbox.begin().await.unwrap();
    let orders = ["order-1", "order-2", "order-3"].map(order_placed);
    outbox.write_all(&mut tx, orders).await.unwrap();
    tx.commit().await.unwrap();
    tokio::time::sleep(Duration::from_secs(5)).await;

    assert_eq!(memory.stats().await.unwrap().pending(), 0);
    assert_eq!(calls.load(Ordering::Relaxed), 3);
}

const ALL: [u8; 256] = {
    let mut all = [0; 256];
    let mut number = 0;
    while number < all.len() {
        all[number] = number as u8;
        number += 1;
    }
    all
};

fn relay(name: &str) -> Instance {
    Instance {
        owner: Owner::new(name, 1),
        is_named: false,
        mode: Mode::Ownership,
        live_for: Duration::from_secs(30),
    }
}

/// O5: an acquisition whose answer is lost has happened, and is found by repeating it, with nothing counted twice.
#[tokio::test]
async fn acquisition_whose_answer_is_lost_is_found_by_repeating_it() {
    let memory = MemoryStore::new();
    let lost = Fault { then: Then::FailAfter, ..Fault::NONE };
    let store = FaultyStore::new(memory.clone(), Planned::new(Call::Acquire, lost));
    let (relay, other) = (relay("relay-1"), relay("relay-2"));
    store.join(&relay).await.unwrap();
    memory.join(&other).await.unwrap();

    store.acquire(&relay, &[7]).await.unwrap_err();

    assert!(memory.acquire(&other, &[7]).await.unwrap().is_empty());
    let [held] = store.acquire(&relay, &[7]).await.unwrap()[..] else { panic!("one partition") };
    assert_eq!((held.partition, held.crashes), (7, 0));
}

/// D8, O5: partitions that an instance has acquired, and has not begun to read when it closes, are given back.
#[tokio::test(start_paused = true)]
async fn partitions_that_nobody_has_read_are_given_back() {
    let runtime = paused::runtime(1);
    let memory = MemoryStore::with_clock(runtime.clock.clone());
    let away = Fault { then: Then::FailBefore, ..Fault::NONE };
    let store = FaultyStore::new(memory.clone(), Planned::repeated(Call::Blocked, away, 1_000));
    let outbox = Outbox::builder(store).runtime(runtime).ordered().start().unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let other = relay("relay-2");
    memory.join(&other).await.unwrap();
    assert!(memory.acquire(&other, &ALL).await.unwrap().is_empty());

    outbox.close().await;

    assert_eq!(memory.acquire(&other, &ALL).await.unwrap().len(), ALL.len());
}
