//! How many statements things cost, counted by what the driver logs.

use std::fmt::Write as _;
use std::sync::{Mutex, Once};
use std::time::Duration;

use pillarbox::store::{
    Birth, DoneRows, EventStore, Outcome, Owner, Settlement, Take, Taken, Token, TxStore,
};
use pillarbox::{Delivery, Event, GLOBAL, ListenerError, MemorySink, Outbox};
use pillarbox_postgres::PostgresStore;
use pillarbox_testkit::conformance::{LONG, claim, order_placed, take, write};
use tracing::Instrument;
use tracing::field::{Field, Visit};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;

use crate::stage::PostgresStage;

/// Statements, with the span that they ran in.
static LOGGED: Mutex<Vec<(Option<u64>, String)>> = Mutex::new(Vec::new());

/// Keeps every statement of the process, and what is said of migrations; tests tell theirs apart by the span that they ran in, or by the schema of
/// their tables. (The driver does not log BEGIN.)
struct Statements;

impl<S: tracing::Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Statements {
    fn on_event(&self, event: &tracing::Event<'_>, context: Context<'_, S>) {
        if KEPT.iter().any(|target| event.metadata().target().starts_with(target)) {
            let span = context.lookup_current().map(|span| span.id().into_u64());
            let mut text = Text::default();
            event.record(&mut text);
            LOGGED.lock().unwrap().push((span, text.0));
        }
    }
}

/// The targets of what is kept.
const KEPT: [&str; 2] = ["sqlx::query", "pillarbox_postgres::migration"];

#[derive(Default)]
struct Text(String);

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        if ["summary", "db.statement", "message", "waits_for"].contains(&field.name()) {
            write!(self.0, "{value:?}").unwrap();
        }
    }
}

/// Begins to keep statements.
pub(crate) fn begin_to_keep() {
    static LISTEN: Once = Once::new();
    LISTEN.call_once(|| {
        tracing::subscriber::set_global_default(tracing_subscriber::registry().with(Statements)).unwrap();
    });
}

/// What `call` answers, and the statements that it took.
pub(crate) async fn counted<T>(call: impl Future<Output = T>) -> (T, Vec<String>) {
    begin_to_keep();
    let span = tracing::info_span!("counted");
    let id = span.id().unwrap().into_u64();
    let answer = call.instrument(span).await;
    (answer, taken_out(|span, _| span == Some(id)))
}

/// Those statements that `is_ours` picks by their span and their text; they are forgotten.
pub(crate) fn taken_out(is_ours: impl Fn(Option<u64>, &str) -> bool) -> Vec<String> {
    let mut logged = LOGGED.lock().unwrap();
    let (ours, others) = logged.drain(..).partition(|(span, sql)| is_ours(*span, sql));
    *logged = others;
    ours.into_iter().map(|(_, sql): (_, String)| sql).collect()
}

fn orders_placed(count: usize) -> Vec<Event> {
    (0..count).map(|n| order_placed(&format!("order-{n}"))).collect()
}

fn settlements(taken: &[Taken], outcome: &Outcome) -> Vec<Settlement> {
    taken.iter().map(|taken| Settlement::of(taken, outcome.clone())).collect()
}

/// W2: events are written by one statement up to 500, whatever their number is, and by nothing else.
pub(crate) async fn write_is_one_insert_for_500_events(stage: &PostgresStage) {
    let birth = Birth { owner: Owner::new("orders", 1), token: Token(17), lease_for: LONG };

    for (events, inserts) in [(1, 1), (2, 1), (10, 1), (500, 1), (501, 2), (1_000, 2)] {
        let mut tx = stage.store.begin().await.unwrap();
        let events = orders_placed(events);
        let (inserted, statements) = counted(stage.store.insert(&mut tx, &events, Some(&birth))).await;
        inserted.unwrap();
        PostgresStore::commit(tx).await.unwrap();

        assert_eq!(statements.len(), inserts, "{} events: {statements:?}", events.len());
        assert!(statements.iter().all(|sql| sql.contains("INSERT INTO")), "{statements:?}");
    }
}

/// S5: a take is one statement, which commits by itself, whether it finds all, some or nothing.
pub(crate) async fn take_is_one_statement(stage: &PostgresStage) {
    write(stage, &orders_placed(15)).await;
    claim(stage, 1).await;

    for expected in [10, 4, 0] {
        let (batch, statements) = counted(stage.store.take(take(10))).await;

        assert_eq!((batch.unwrap().events.len(), statements.len()), (expected, 1), "{statements:?}");
    }
    let sweep = Take { sweep: true, ..take(10) };
    assert_eq!(counted(stage.store.take(sweep)).await.1.len(), 2, "a sweep looks twice");
}

/// D12: outcomes of one kind are one statement, which commits by itself; DONE and others are two in a transaction.
pub(crate) async fn batch_of_outcomes_is_one_statement(stage: &PostgresStage) {
    write(stage, &orders_placed(500)).await;
    let first = claim(stage, 1).await.events;
    stage.store.settle(&settlements(&first, &Outcome::Done), DoneRows::Keep).await.unwrap();
    let done = settlements(&claim(stage, 199).await.events, &Outcome::Done);
    let retry = Outcome::Retry { after: LONG, error: "503".into(), spent: true };
    let retried = settlements(&claim(stage, 100).await.events, &retry);
    let others: Vec<Settlement> = [
        settlements(&claim(stage, 50).await.events, &Outcome::Done),
        settlements(&claim(stage, 50).await.events, &Outcome::Released),
        settlements(&claim(stage, 50).await.events, &Outcome::Dead { error: "410".into(), spent: true }),
    ]
    .concat();

    for (batch, expected) in [(done, 1), (retried, 1), (others, 3)] {
        let (lost, statements) = counted(stage.store.settle(&batch, DoneRows::Keep)).await;

        assert!(lost.unwrap().is_empty());
        assert_eq!(statements.len(), expected, "{statements:?}");
        assert_eq!(statements.iter().any(|sql| sql.contains("COMMIT")), expected > 1, "{statements:?}");
    }
}

/// W13: events of the hot path are read back by one statement, however many there are.
pub(crate) async fn reading_back_is_one_statement(stage: &PostgresStage) {
    let ids: Vec<String> = (0..500).map(|n| format!("event-{n}")).collect();
    stage.store.read_back(Token(17), &ids).await.unwrap();

    let (found, statements) = counted(stage.store.read_back(Token(17), &ids)).await;

    assert_eq!((found.unwrap().len(), statements.len()), (0, 1), "{statements:?}");
}

/// D12, P5: draining costs at most 0.05 statements per event at batch size 100.
pub(crate) async fn drained_event_costs_a_twentieth_of_a_statement(stage: &PostgresStage) {
    const EVENTS: usize = 5_000;
    begin_to_keep();
    write(stage, &orders_placed(EVENTS)).await;
    let (seen, mut all_seen) = tokio::sync::watch::channel(0);
    let listener = move |_: Delivery| {
        seen.send_modify(|count| *count += 1);
        std::future::ready(Ok::<(), ListenerError>(()))
    };
    taken_out(|_, sql| sql.contains(&stage.schema));

    let outbox = Outbox::builder(PostgresStore::clone(&stage.store))
        .on_aggregate("Order", "OrderPlaced", listener)
        .batch_size(100)
        .max_batch(100)
        .start()
        .unwrap();
    all_seen.wait_for(|count| *count == EVENTS).await.unwrap();
    outbox.close().await;

    assert_eq!(outbox.counts().done, EVENTS as u64);
    let used = taken_out(|_, sql| sql.contains(&stage.schema)).len();
    assert!((1..=EVENTS / 20).contains(&used), "{used} statements for {EVENTS} events");
}

/// P5: an outbox with nothing to do sends no statement to a table between two polls and two heartbeats.
pub(crate) async fn idle_outbox_reads_no_table(stage: &PostgresStage) {
    begin_to_keep();
    let outbox = Outbox::builder(PostgresStore::clone(&stage.store))
        .on_sink(GLOBAL, "OrderPlaced", MemorySink::new())
        .poll_every(Duration::from_secs(3_600))
        .start()
        .unwrap();
    outbox.poll().await.unwrap();
    // LISTEN is set up meanwhile, which is followed by a look.
    tokio::time::sleep(Duration::from_millis(500)).await;
    taken_out(|_, sql| sql.contains(&stage.schema));

    tokio::time::sleep(Duration::from_millis(200)).await;

    assert_eq!(taken_out(|_, sql| sql.contains(&stage.schema)), [""; 0]);
    outbox.close().await;
}
