//! What every adapter to a driver of the user's own is held to: one case per promise.
//!
//! A test binary implements [`AdapterStage`] and [`Fresh`](crate::servers::Fresh), and lists the cases with
//! [`adapter_trials!`](crate::adapter_trials); where no server is needed, with
//! [`adapter_tests!`](crate::adapter_tests).

#![expect(clippy::unwrap_used, reason = "cases are tests")]

use std::time::Duration;

use pillarbox::store::{Administration, Status, StoredEvent};
use pillarbox::{Event, EventBuilder, Outbox, Receipt, Store, Timestamp, WriteError, partition_of};

use crate::acceptance::Desk;

/// Long enough that only a wake-up or a poll by hand delivers within a test.
const HOUR: Duration = Duration::from_secs(3_600);

/// Long enough for any delivery, even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);

/// How a transaction ends, whatever the adapter answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It is committed.
    Commit,
    /// It is rolled back.
    Rollback,
}

/// An empty outbox, and an adapter that writes to it.
pub trait AdapterStage {
    /// The store of the outbox.
    type Store: Store + Clone;

    /// A handle to the store. It must not learn by itself of what other connections commit.
    fn store(&self) -> Self::Store;

    /// Begins a transaction of the driver's, writes `events` by the adapter, ends the transaction, and gives the
    /// adapter's answer.
    fn write(&self, events: Vec<Event>, end: End) -> impl Future<Output = Result<Receipt, WriteError>>;

    /// Does the same through `outbox`, which may be switched off, and commits.
    fn write_through(
        &self,
        outbox: &Outbox<Self::Store>,
        events: Vec<Event>,
    ) -> impl Future<Output = Result<Receipt, WriteError>>;

    /// How many INSERTs the last write sent.
    fn statements(&self) -> usize;

    /// The partition that stands in the row of an event.
    fn partition(&self, event_id: &str) -> impl Future<Output = Option<u8>>;
}

/// Adds every case of this suite to a [`Suite`](crate::servers::Suite): `adapter_trials!(suite, server, Stage)`.
#[macro_export]
macro_rules! adapter_trials {
    ($suite:expr, $server:expr, $stage:ty) => {{
        use $crate::adapters;
        $crate::adapter_list! { trials_of ($suite, $server, $stage) }
    }};
}

/// Makes every case a `#[tokio::test]` of its own name, where no server is needed.
///
/// The argument is evaluated anew for each of them, inside the test, and may await.
#[macro_export]
macro_rules! adapter_tests {
    ($stage:expr) => {
        $crate::adapter_list! { adapter_tests_of ($stage) }
    };
}

/// Hands the list of all cases to the macro `$then`, behind `$arguments`.
#[doc(hidden)]
#[macro_export]
macro_rules! adapter_list {
    ($then:ident $arguments:tt) => {
        $crate::$then! { $arguments;
            adapters {
                receipt_delivers_at_once
                forgotten_receipt_costs_latency_only
                receipt_of_nothing_does_nothing
                rollback_leaves_nothing
                repeated_id_is_its_own_error
                repeated_id_among_many_is_named
                failed_write_leaves_nothing
                many_events_are_few_statements
                all_fields_come_back
                delays_come_back
                partition_is_that_of_the_key
                outbox_that_is_enabled_is_written_to
                outbox_that_is_disabled_is_not_written_to
                outbox_that_stores_nothing_is_not_written_to
            }
        }
    };
}

/// The tests for a list of cases; use [`adapter_tests!`](crate::adapter_tests).
#[doc(hidden)]
#[macro_export]
macro_rules! adapter_tests_of {
    (($stage:expr); adapters { $($case:ident)* }) => {$(
        #[tokio::test]
        async fn $case() {
            let stage = $stage;
            $crate::adapters::$case(&stage).await;
        }
    )*};
}

/// W12: handed back after the commit, the receipt wakes the poller, though it would sleep for an hour.
pub async fn receipt_delivers_at_once(stage: &impl AdapterStage) {
    let (outbox, mut desk) = open(stage);
    outbox.poll().await.unwrap();

    let receipt = stage.write(vec![placed("order-17")], End::Commit).await.unwrap();
    let ids = receipt.ids().to_vec();
    outbox.committed(receipt);

    let delivery = soon(desk.accept()).await;
    outbox.close().await;
    assert_eq!(ids, [delivery.id()]);
    assert_eq!(row(stage, delivery.id()).await.unwrap().status, Ok(Status::Done));
}

/// W12: an event whose receipt was forgotten waits for the next poll, and is delivered all the same.
pub async fn forgotten_receipt_costs_latency_only(stage: &impl AdapterStage) {
    let (outbox, mut desk) = open(stage);
    outbox.poll().await.unwrap();

    let forgotten = stage.write(vec![placed("order-17")], End::Commit).await.unwrap();
    assert_eq!(row(stage, &forgotten.ids()[0]).await.unwrap().status, Ok(Status::New));
    outbox.poll().await.unwrap();

    let delivery = soon(desk.accept()).await;
    outbox.close().await;
    assert_eq!(forgotten.ids(), [delivery.id()]);
}

/// W12: a call without events sends nothing, and its receipt is good for nothing.
pub async fn receipt_of_nothing_does_nothing(stage: &impl AdapterStage) {
    let (outbox, mut desk) = open(stage);

    let receipt = stage.write(Vec::new(), End::Commit).await.unwrap();
    assert_eq!((receipt.ids().len(), stage.statements()), (0, 0));
    outbox.committed(receipt);
    outbox.close().await;

    assert!(desk.waiting().is_none());
}

/// W1, W12: what was rolled back leaves no row, and its receipt delivers nothing.
pub async fn rollback_leaves_nothing(stage: &impl AdapterStage) {
    let (outbox, mut desk) = open(stage);

    let receipt = stage.write(vec![placed("order-17")], End::Rollback).await.unwrap();
    let ids = receipt.ids().to_vec();
    outbox.committed(receipt);
    outbox.poll().await.unwrap();
    outbox.close().await;

    assert!(row(stage, &ids[0]).await.is_none());
    assert!(desk.waiting().is_none());
}

/// V6: an id that is in the table, or twice in one call, is `DuplicateId`.
pub async fn repeated_id_is_its_own_error(stage: &impl AdapterStage) {
    let event = placed("order-17");
    let _ = stage.write(vec![event.clone()], End::Commit).await.unwrap();

    let in_the_table = stage.write(vec![event.clone()], End::Rollback).await.unwrap_err();
    let another = placed("order-18");
    let twice = stage.write(vec![another.clone(), another.clone()], End::Commit).await.unwrap_err();

    assert_eq!(repeated(&in_the_table), Some(event.id()));
    assert_eq!(repeated(&twice), Some(another.id()));
    assert!(row(stage, another.id()).await.is_none());
}

/// V6: among many events, the one whose id exists is named, and nothing of the call is written.
pub async fn repeated_id_among_many_is_named(stage: &impl AdapterStage) {
    let existing = placed("order-17");
    let _ = stage.write(vec![existing.clone()], End::Commit).await.unwrap();
    let (first, last) = (placed("order-1"), placed("order-2"));

    let events = vec![first.clone(), existing.clone(), last.clone()];
    let error = stage.write(events, End::Commit).await.unwrap_err();

    assert_eq!(repeated(&error), Some(existing.id()));
    assert!(row(stage, first.id()).await.is_none());
    assert!(row(stage, last.id()).await.is_none());
}

/// W12: a call that fails at its second statement leaves nothing of the first, even if the user commits.
pub async fn failed_write_leaves_nothing(stage: &impl AdapterStage) {
    let existing = placed("order-17");
    let _ = stage.write(vec![existing.clone()], End::Commit).await.unwrap();
    let mut events: Vec<Event> = (0..500).map(|n| placed(&format!("order-{n}"))).collect();
    events.push(existing.clone());

    let error = stage.write(events.clone(), End::Commit).await.unwrap_err();

    assert_eq!(repeated(&error), Some(existing.id()));
    assert!(row(stage, events[0].id()).await.is_none());
    assert_eq!(stage.store().stats().await.unwrap().pending(), 1);
}

/// W2, W12: a thousand events are two statements, and all of them arrive.
pub async fn many_events_are_few_statements(stage: &impl AdapterStage) {
    let (outbox, mut desk) = open(stage);
    let events: Vec<Event> = (0..1_000).map(|n| placed(&format!("order-{n}"))).collect();

    let receipt = stage.write(events.clone(), End::Commit).await.unwrap();
    let sent = stage.statements();
    let mut expected = receipt.ids().to_vec();
    outbox.committed(receipt);

    let deliveries = soon(desk.accept_many(events.len())).await;
    outbox.close().await;
    let mut delivered: Vec<String> = deliveries.iter().map(|delivery| delivery.id().to_owned()).collect();
    expected.sort();
    delivered.sort();
    assert_eq!((sent, delivered), (2, expected));
}

/// W11, W12: every field of an event comes back equal, as it does by the outbox's own INSERT.
pub async fn all_fields_come_back(stage: &impl AdapterStage) {
    let full = Event::builder("OrderPlaced")
        .aggregate("Order", "order-17")
        .key("customer-ä4 ")
        .tenant("acme")
        .header("source", "till \"3\" \\ 日本")
        .context("user", "ann'; --")
        .json_text(r#"{ "id" : 17, "note":"\u0000 é 😀", "id":18 }"#);
    let bytes = Event::builder("OrderPlaced").bytes([0, 1, 254, 255]);
    let empty = Event::builder("OrderPlaced").bytes([]);
    let at = |micros: i64| {
        Event::builder("OrderPlaced").occurred_at(Timestamp::from_micros(micros)).json_text("null")
    };
    // The years 1900, 1970, 2026 and 2300: the last has more microseconds than a floating-point number can count.
    let moments = [-2_208_988_800_000_001, -1, 1_772_366_399_999_999, 10_413_792_000_000_001].map(at);
    let builders = [full, bytes, empty].into_iter().chain(moments);
    let events: Vec<Event> = builders.map(EventBuilder::build).collect::<Result<_, _>>().unwrap();

    let _ = stage.write(events.clone(), End::Commit).await.unwrap();

    for event in &events {
        let stored = row(stage, event.id()).await.unwrap();
        assert_eq!(stored.event.unwrap().parts(), event.parts());
        assert_eq!((stored.attempts, stored.starts, stored.locked_by), (0, 0, None));
    }
}

/// V8, W12: an event may come later, by a delay or at a point in time.
pub async fn delays_come_back(stage: &impl AdapterStage) {
    let reminder = || Event::builder("ReminderDue").json_text("{}");
    let at = Timestamp::from_micros(4_102_444_800_000_001);
    let after = reminder().deliver_after(HOUR).build().unwrap();
    let then = reminder().available_at(at).build().unwrap();
    let now = reminder().build().unwrap();

    let events = vec![after.clone(), then.clone(), now.clone()];
    let _ = stage.write(events, End::Commit).await.unwrap();

    let after = row(stage, after.id()).await.unwrap();
    let late = after.due_at.saturating_since(after.created_at.saturating_add(HOUR));
    assert!(after.due_at > after.created_at && late < PATIENCE, "{late:?} too late");
    let then = row(stage, then.id()).await.unwrap();
    assert_eq!((then.due_at, then.available_at), (at, at));
    let now = row(stage, now.id()).await.unwrap();
    assert_eq!((now.available_at, after.available_at), (now.due_at, after.due_at));
    assert!(now.due_at <= now.created_at.saturating_add(PATIENCE));
}

/// O3, W12: the row has the partition of its key, or one by its id.
pub async fn partition_is_that_of_the_key(stage: &impl AdapterStage) {
    let with_key = placed("straße-9");
    let without = Event::of_json("OrderPlaced", "{}").unwrap();

    let _ = stage.write(vec![with_key.clone(), without.clone()], End::Commit).await.unwrap();

    assert_eq!(stage.partition(with_key.id()).await, Some(partition_of("straße-9")));
    assert_eq!(stage.partition(without.id()).await, Some(partition_of(without.id())));
}

/// W12: the outbox leads to its tables as its store does.
pub async fn outbox_that_is_enabled_is_written_to(stage: &impl AdapterStage) {
    let outbox = Outbox::builder(stage.store()).writer_only().start().unwrap();
    let event = placed("order-17");

    let receipt = stage.write_through(&outbox, vec![event.clone()]).await.unwrap();

    assert_eq!(receipt.ids(), [event.id()]);
    assert!(row(stage, event.id()).await.is_some());
}

/// M4: while the outbox is disabled a write fails, unless it was said that events are thrown away.
pub async fn outbox_that_is_disabled_is_not_written_to(stage: &impl AdapterStage) {
    let disabled = || Outbox::builder(stage.store()).writer_only().enabled(false);
    let (refusing, discarding) =
        (disabled().start().unwrap(), disabled().discard_when_disabled(true).start().unwrap());
    let event = placed("order-17");

    let refused = stage.write_through(&refusing, vec![event.clone()]).await;
    let discarded = stage.write_through(&discarding, vec![event.clone()]).await.unwrap();

    assert!(matches!(refused, Err(WriteError::Disabled)), "{refused:?}");
    assert_eq!((discarded.ids().len(), stage.statements()), (0, 0));
    assert!(row(stage, event.id()).await.is_none());
}

/// W10: an outbox that stores no events has none stored by an adapter either, and still says what is wrong with them.
pub async fn outbox_that_stores_nothing_is_not_written_to(stage: &impl AdapterStage) {
    let outbox = Outbox::builder(stage.store()).writer_only().store_events(false).start().unwrap();
    let event = placed("order-17");

    let receipt = stage.write_through(&outbox, vec![event.clone()]).await.unwrap();
    let repeating = stage.write_through(&outbox, vec![event.clone(), event.clone()]).await.unwrap_err();

    assert_eq!((receipt.ids().len(), repeated(&repeating)), (0, Some(event.id())));
    assert!(row(stage, event.id()).await.is_none());
}

/// An outbox whose poller sleeps for an hour, and the desk where its deliveries arrive.
fn open<S: AdapterStage>(stage: &S) -> (Outbox<S::Store>, Desk) {
    let (listener, desk) = Desk::open();
    let builder = Outbox::builder(stage.store()).poll_every(HOUR);
    (builder.on_aggregate("Order", "OrderPlaced", listener).start().unwrap(), desk)
}

fn placed(order: &str) -> Event {
    Event::builder("OrderPlaced").aggregate("Order", order).json_text("{}").build().unwrap()
}

async fn row(stage: &impl AdapterStage, event_id: &str) -> Option<StoredEvent> {
    stage.store().find(event_id).await.unwrap()
}

fn repeated(error: &WriteError) -> Option<&str> {
    match error {
        WriteError::DuplicateId { id } => Some(id),
        _ => None,
    }
}

async fn soon<T>(arrival: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, arrival).await.expect("it arrives soon")
}
