//! What a process does: write, or deliver in order.

use std::process::{Command, ExitCode};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use pillarbox::{
    Clock, Delivery, Event, Listener, ListenerError, Outbox, Retry, Runtime, Store, SystemClock, Tx,
};

use super::Shell;
use super::beats::Beats;
use crate::cluster::{orders, say};

/// Set in a process: where the outbox is.
const ADDRESS: &str = "PILLARBOX_TEST_CHAOS";
/// Set in a process: what it does.
const ROLE: &str = "PILLARBOX_TEST_CHAOS_ROLE";
/// Set in a process that bears a name: the name.
pub(super) const NAME: &str = "PILLARBOX_TEST_CHAOS_NAME";
pub(super) const KEYS: u64 = 200;
/// Of so many deliveries one fails, and one takes a while.
const FAILS_ONE_OF: u64 = 20;
const TAKES_LONG_ONE_OF: u64 = 50;
/// An instance is silent for so long before others take over.
const SILENT_AFTER: Duration = Duration::from_millis(1_500);
const MARGIN: Duration = Duration::from_millis(250);
/// How often a relay looks whether it has lost something.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// As an instance that takes its time, so that what is measured is not the machine.
pub(super) const STEADY_BEAT: Duration = Duration::from_secs(2);
pub(super) const STEADY_SILENCE: Duration = Duration::from_secs(6);

/// What a process does.
#[derive(Clone, Copy, Debug)]
pub(super) enum Role {
    Writer,
    Relay,
    /// A relay with heartbeats that are far apart.
    Steady,
}

/// This test binary once more, in a role.
pub(super) fn program(address: &str, role: Role) -> Command {
    let mut program = Command::new(std::env::current_exe().unwrap());
    program.env(ADDRESS, address).env(ROLE, format!("{role:?}"));
    program
}

/// Runs this process in its role, if it was started in one.
pub fn member<C: Shell>() -> Option<ExitCode> {
    let address = std::env::var(ADDRESS).ok()?;
    let role = std::env::var(ROLE).ok()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let store = C::at(&address).await;
        match role.as_str() {
            "Writer" => write(store, C::WRITES_AT_ONCE).await,
            "Steady" => steady(store).await,
            _ => relay(store).await,
        }
    });
    // A thread may still wait for a line that never comes.
    runtime.shutdown_background();
    Some(ExitCode::SUCCESS)
}

/// An act with its time, in nanoseconds of the machine's clock.
pub(super) fn told(act: &str, event_id: &str, key: &str) -> String {
    format!("{act} {event_id} {key} {}", SystemClock.now().as_nanos())
}

fn tell(act: &str, event_id: &str, key: &str) {
    say(&told(act, event_id, key));
}

fn key_of(event: &Event) -> &str {
    event.key().unwrap_or("-")
}

/// Delivers in order until it is told to end.
async fn relay<S: Store>(store: S) {
    let beats = Beats::new(SILENT_AFTER);
    let outbox = Outbox::builder(store)
        .ordered()
        .on("OrderPlaced", listener())
        .metrics(beats.clone())
        .retry(Retry::fixed(Duration::from_millis(50)).max_attempts(100))
        .heartbeat_every(Duration::from_millis(200))
        .silent_after(SILENT_AFTER)
        .rebalance_every(Duration::from_millis(500))
        .margin(MARGIN)
        .poll_every(Duration::from_millis(500))
        .start()
        .unwrap();
    // Who is frozen in the middle of it finds its connection gone afterwards, and polls again by itself.
    let _ = outbox.poll().await;
    say("ready");
    let mut orders = orders();
    let mut lost = 0;
    let mut look = || {
        beats.tell_silence();
        let counted = outbox.counts().lost_leases;
        if counted > std::mem::replace(&mut lost, counted) {
            tell("lost", "-", "-");
        }
    };
    while !matches!(tokio::time::timeout(LOOK_EVERY, orders.recv()).await, Ok(None)) {
        look();
    }
    outbox.close().await;
    look();
}

/// Takes a while now and then, and fails now and then.
fn listener() -> impl Listener {
    let random = Runtime::tokio().random;
    move |delivery: Delivery| {
        let chance = random.next_u64();
        async move {
            let attempt = Attempt::begin(delivery);
            if chance.is_multiple_of(TAKES_LONG_ONE_OF) {
                SystemClock.sleep(Duration::from_millis(100)).await;
            }
            if chance % FAILS_ONE_OF == 1 {
                attempt.end("failed");
                return Err(ListenerError::new("not now"));
            }
            attempt.end("done");
            Ok(())
        }
    }
}

/// Owns partitions until it is told to end.
async fn steady<S: Store>(store: S) {
    let builder = match std::env::var(NAME) {
        Ok(name) => Outbox::builder(store).name(name),
        Err(_) => Outbox::builder(store),
    };
    let outbox = builder
        .ordered()
        .on("OrderPlaced", async |_: Delivery| -> Result<(), ListenerError> { Ok(()) })
        .heartbeat_every(STEADY_BEAT)
        .silent_after(STEADY_SILENCE)
        .rebalance_every(STEADY_BEAT)
        .margin(MARGIN)
        .start()
        .unwrap();
    let _ = outbox.poll().await;
    say("ready");
    let mut orders = orders();
    while orders.recv().await.is_some() {}
    outbox.close().await;
}

/// A delivery that has begun, and tells how it ends: if nobody says how, it was cut off.
struct Attempt {
    delivery: Delivery,
    /// Which delivery of this process it is.
    number: u64,
}

impl Attempt {
    fn begin(delivery: Delivery) -> Self {
        static COUNTER: AtomicU64 = AtomicU64::new(1);
        let attempt = Self { delivery, number: COUNTER.fetch_add(1, Ordering::Relaxed) };
        attempt.tell("deliver");
        attempt
    }

    fn end(self, how: &str) {
        self.tell(how);
        std::mem::forget(self);
    }

    fn tell(&self, act: &str) {
        let told = told(act, self.delivery.id(), key_of(&self.delivery));
        say(&format!("{told} {}", self.number));
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        self.tell("cut");
    }
}

/// Writes until it is told to end: commits, rollbacks, and transactions of one key that overlap if they can.
async fn write<S: Store>(store: S, can_overlap: bool) {
    let outbox = Outbox::builder(store).writer_only().start().unwrap();
    let random = Runtime::tokio().random;
    say("ready");
    let mut orders = orders();
    loop {
        let pause = Duration::from_millis(random.next_u64() % 8);
        if let Ok(None) = tokio::time::timeout(pause, orders.recv()).await {
            break;
        }
        let chance = random.next_u64();
        let key = format!("order-{}", chance % KEYS);
        match (chance >> 32) % 10 {
            0 => roll_back(&outbox, event(Some(&key))).await,
            1 if can_overlap => overlap(&outbox, &key).await,
            2 => commit(begin(&outbox, event(None)).await).await,
            _ => commit(begin(&outbox, event(Some(&key))).await).await,
        }
    }
    outbox.close().await;
}

fn event(key: Option<&str>) -> Event {
    let event = Event::builder("OrderPlaced").json_text("{}");
    match key {
        Some(key) => event.key(key).build().unwrap(),
        None => event.build().unwrap(),
    }
}

/// An event in a transaction that is open.
async fn begin<S: Store>(outbox: &Outbox<S>, event: Event) -> (Tx<S>, Event) {
    let mut tx = open(outbox).await;
    tell("insert", event.id(), key_of(&event));
    outbox.write(&mut tx, event.clone()).await.unwrap();
    (tx, event)
}

/// Opens a transaction, and tries again as applications do: a process that is stopped in the middle of a write to SQLite
/// has the file locked for as long.
async fn open<S: Store>(outbox: &Outbox<S>) -> Tx<S> {
    loop {
        match outbox.begin().await {
            Ok(tx) => return tx,
            Err(error) => assert!(error.is_transient(), "{error}"),
        }
    }
}

async fn commit<S: Store>((tx, event): (Tx<S>, Event)) {
    tx.commit().await.unwrap();
    tell("commit", event.id(), key_of(&event));
}

async fn roll_back<S: Store>(outbox: &Outbox<S>, event: Event) {
    let (tx, event) = begin(outbox, event).await;
    tx.rollback().await.unwrap();
    tell("rollback", event.id(), key_of(&event));
}

/// Two transactions of one key, of which the second commits first.
async fn overlap<S: Store>(outbox: &Outbox<S>, key: &str) {
    let first = begin(outbox, event(Some(key))).await;
    let second = begin(outbox, event(Some(key))).await;
    commit(second).await;
    SystemClock.sleep(Duration::from_millis(20)).await;
    commit(first).await;
}
