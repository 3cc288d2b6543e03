//! Options from a file do in the engine what they do when the program sets them.

use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use pillarbox::store::{Administration, Status};
use pillarbox::{Delivery, ErrorKind, ListenerError, MemoryConnection, MemoryStore, OutboxBuilder, Settings};
use pillarbox_testkit::acceptance::Desk;

use crate::retrying::{attempts_after, close};
use crate::stage::{HOUR, Notes, SECOND, Stage, orders, placed, write, write_all};
use crate::surroundings::{OrderShipped, shipped};

/// An outbox with these options, in TOML.
fn with(stage: &Stage, text: &str) -> OutboxBuilder<MemoryStore> {
    stage.outbox().settings(Settings::from_toml(text).unwrap())
}

/// M4: `poll_every` is E's `poll-interval`.
#[tokio::test(start_paused = true)]
async fn poll_every_is_how_long_the_poller_sleeps() {
    let (stage, seen) = (Stage::set(), Notes::<Delivery>::new());
    let _outbox = with(&stage, "poll_every = \"2s\"").on("OrderPlaced", seen.listener()).start().unwrap();
    stage.quiet().await;
    stage.pending(&["order-1"]).await;

    stage.pass(1_800 * SECOND / 1_000).await;
    assert_eq!(seen.len(), 0);
    stage.pass(SECOND).await;

    assert_eq!(seen.ids(), ["order-1"]);
}

/// How many takes it costs to find thirty events.
async fn takes_for_thirty(options: &str) -> u64 {
    let (stage, seen) = (Stage::set(), Notes::<Delivery>::new());
    let names = orders(30);
    stage.pending(&names.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let outbox = with(&stage, options).on("OrderPlaced", seen.listener()).start().unwrap();
    stage.quiet().await;
    assert_eq!(seen.len(), 30);
    outbox.counts().takes
}

/// M4, K3: `batch_size` is E's `batch-size`: the first take asks for as many, and the next for no more than `max_batch`.
#[tokio::test(start_paused = true)]
async fn batch_size_is_the_first_take() {
    assert!((1..=2).contains(&takes_for_thirty("").await), "50 at once");
    assert!((5..=6).contains(&takes_for_thirty("batch_size = 1").await), "1, 2, 4, 8, 16");
    assert!((10..=11).contains(&takes_for_thirty("batch_size = 3\nmax_batch = 3").await), "ten times 3");
}

/// M4: `workers` is E's `executor-core-pool-size`.
#[tokio::test(start_paused = true)]
async fn workers_is_how_many_run_at_once() {
    let stage = Stage::set();
    let (running, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (now, highest, clock) = (running.clone(), most.clone(), stage.runtime.clock.clone());
    let listener = move |_: Delivery| {
        let (now, highest, pause) = (now.clone(), highest.clone(), clock.sleep(SECOND));
        async move {
            highest.fetch_max(now.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
            pause.await;
            now.fetch_sub(1, Ordering::Relaxed);
            Ok::<(), ListenerError>(())
        }
    };
    let outbox = with(&stage, "workers = 3").on("OrderPlaced", listener).start().unwrap();

    write_all(&outbox, &orders(20)).await;
    stage.pass(HOUR).await;

    assert_eq!((most.load(Ordering::Relaxed), outbox.counts().done), (3, 20));
}

/// The statuses of two events of one key, of which the first fails.
async fn after_a_failure(options: &str) -> (Status, Status) {
    let stage = Stage::set();
    let seen = Notes::<Delivery>::new();
    let fail_first = seen.answering(|delivery| match delivery.id() {
        "order-1" => Err(ListenerError::new("no answer")),
        _ => Ok(()),
    });
    let options = format!("ordered = true\nretry = {{ kind = \"fixed\", initial = \"10m\" }}\n{options}");
    let outbox = with(&stage, &options).on("OrderPlaced", fail_first).start().unwrap();
    stage.quiet().await;

    for id in ["order-1", "order-2"] {
        write(&outbox, crate::stage::placing(id).key("customer-7")).await;
    }
    stage.pass(60 * SECOND).await;

    (stage.status("order-1").await, stage.status("order-2").await)
}

/// M4: `stop_on_first_failure` is E's, and both of its values do what E's do.
#[tokio::test(start_paused = true)]
async fn stop_on_first_failure_holds_the_key_back_or_not() {
    assert_eq!(after_a_failure("stop_on_first_failure = true").await, (Status::Retry, Status::Retry));
    assert_eq!(after_a_failure("stop_on_first_failure = false").await, (Status::Retry, Status::Done));
}

/// M4: `publish_after_save` is E's, and `store_events` is E's `multicaster.enabled`.
#[tokio::test(start_paused = true)]
async fn publishing_and_storing_are_switched_off() {
    for (options, told, stored) in
        [("", 1, true), ("publish_after_save = false", 0, true), ("store_events = false", 1, false)]
    {
        let (stage, notes) = (Stage::set(), Notes::<String>::new());
        let noted = notes.clone();
        let outbox = with(&stage, &format!("topology = \"writer_only\"\n{options}"))
            .subscribe(move |event: OrderShipped, _: &mut MemoryConnection| {
                noted.note(event.order);
                Box::pin(std::future::ready(Ok(())))
            })
            .start()
            .unwrap();

        write(&outbox, shipped("order-1")).await;

        assert_eq!((notes.len(), stage.has_row("order-1").await), (told, stored), "{options}");
    }
}

/// M4: `delete_done` is E's `delete-completed-records`.
#[tokio::test(start_paused = true)]
async fn delete_done_deletes_done_events() {
    for (options, remains) in [("", true), ("delete_done = true", false)] {
        let (stage, seen) = (Stage::set(), Notes::<Delivery>::new());
        let outbox = with(&stage, options).on("OrderPlaced", seen.listener()).start().unwrap();

        write(&outbox, placed("order-1")).await;
        stage.pass(SECOND).await;

        assert_eq!((seen.len(), stage.has_row("order-1").await), (1, remains), "{options}");
    }
}

/// D1: `drain_timeout` is how long closing waits for listeners.
#[tokio::test(start_paused = true)]
async fn drain_timeout_is_how_long_closing_waits() {
    let stage = Stage::set();
    let (listener, mut desk) = Desk::open();
    let outbox = with(&stage, "drain_timeout = \"12s\"").on("OrderPlaced", listener).start().unwrap();
    write(&outbox, placed("order-1")).await;
    let _kept = desk.next().await;

    let begun = stage.now();
    outbox.close().await;

    assert!((12 * SECOND..13 * SECOND).contains(&(stage.now() - begun)), "{:?}", stage.now() - begun);
}

/// M4, O4: `shutdown_timeout` is E's `graceful-shutdown-timeout-seconds`: the longest that closing takes.
#[tokio::test(start_paused = true)]
async fn shutdown_timeout_is_how_long_closing_takes_at_most() {
    let stage = Stage::set();
    let (listener, mut desk) = Desk::open();
    let (outbox, faults) = stage.faulty();
    let settings = Settings::from_toml("drain_timeout = \"2s\"\nshutdown_timeout = \"20s\"").unwrap();
    let outbox = outbox.settings(settings).on("OrderPlaced", listener).start().unwrap();
    write(&outbox, placed("order-1")).await;
    let _kept = desk.next().await;
    faults.settles_hang.store(true, Ordering::Relaxed);

    let begun = stage.now();
    outbox.close().await;

    assert!((20 * SECOND..21 * SECOND).contains(&(stage.now() - begun)), "{:?}", stage.now() - begun);
}

/// M4: `heartbeat_every` and `silent_after` are E's `heartbeat-interval-seconds` and `stale-instance-timeout-seconds`.
#[tokio::test(start_paused = true)]
async fn heartbeats_come_as_often_as_configured() {
    let stage = Stage::set();
    let _outbox = with(&stage, "name = \"orders-1\"\nheartbeat_every = \"2m\"\nsilent_after = \"10m\"")
        .start()
        .unwrap();
    stage.pass(110 * SECOND).await;

    let census = stage.store.census().await.unwrap();

    let member = census.alive().next().expect("it has joined");
    assert_eq!(member.owner.name(), "orders-1");
    assert!(member.silent_for > 100 * SECOND, "no heartbeat before two minutes: {member:?}");
}

/// M4: a member whose heartbeats do not come counts as dead after `silent_after`.
#[tokio::test(start_paused = true)]
async fn silence_counts_as_death_after_silent_after() {
    let stage = Stage::set();
    let (outbox, faults) = stage.faulty();
    let options = Settings::from_toml("heartbeat_every = \"1s\"\nsilent_after = \"20m\"").unwrap();
    let _outbox = outbox.settings(options).start().unwrap();
    stage.pass(SECOND / 2).await;
    faults.members.next(u32::MAX);

    stage.pass(1_190 * SECOND).await;
    assert_eq!(stage.store.census().await.unwrap().alive().count(), 1);
    stage.pass(20 * SECOND).await;

    assert_eq!(stage.store.census().await.unwrap().alive().count(), 0);
}

/// M4: `rebalance_every` is E's `rebalance-interval`: surplus partitions are given up no sooner.
#[tokio::test(start_paused = true)]
async fn rebalance_every_is_when_surplus_is_given_up() {
    let stage = Stage::set();
    let options = |name: &str| format!("name = \"{name}\"\nordered = true\nrebalance_every = \"10m\"");
    let seen = Notes::<Delivery>::new();
    let first = with(&stage, &options("orders-1")).on("OrderPlaced", seen.listener()).start().unwrap();
    stage.pass(60 * SECOND).await;
    assert_eq!(first.partitions().len(), 256);
    let second = with(&stage, &options("orders-2")).on("OrderPlaced", seen.listener()).start().unwrap();

    stage.pass(120 * SECOND).await;
    assert_eq!((first.partitions().len(), second.partitions().len()), (256, 0), "after two minutes");
    stage.pass(900 * SECOND).await;

    assert!(first.partitions().len() < 256 && second.partitions().len() > 100, "after seventeen minutes");
}

/// T4, M4: five attempts, 100 ms doubling, no jitter, is one line; 1,600 ms are never waited.
#[tokio::test(start_paused = true)]
async fn one_line_makes_five_attempts() {
    let stage = Stage::set();
    let line = "retry = { kind = \"exponential\", initial = \"100ms\", max_attempts = 5 }";

    let delays = attempts_after(&stage, with(&stage, line)).await;

    close(&delays, &[100, 200, 400, 800]);
    let row = stage.row("order-1").await;
    assert_eq!((row.status, row.attempts), (Ok(Status::Dead), 5));
}

/// T4, M4: with `max_retries = 5` all five delays are waited.
#[tokio::test(start_paused = true)]
async fn one_line_makes_five_retries() {
    let stage = Stage::set();
    let line = "retry = { kind = \"exponential\", initial = \"100ms\", max_retries = 5 }";

    let delays = attempts_after(&stage, with(&stage, line)).await;

    close(&delays, &[100, 200, 400, 800, 1_600]);
    assert_eq!(stage.row("order-1").await.attempts, 6);
}

/// T2, M4: each kind has the defaults that E's has, and each option changes its part.
#[tokio::test(start_paused = true)]
async fn kinds_of_policies_have_their_delays() {
    for (options, expected) in [
        ("kind = \"fixed\"", vec![5_000; 3]),
        ("kind = \"fixed\", initial = \"7s\"", vec![7_000; 3]),
        ("kind = \"exponential\"", vec![1_000, 2_000, 4_000]),
        ("kind = \"exponential\", multiplier = 3", vec![1_000, 3_000, 9_000]),
        ("kind = \"exponential\", max = \"3s\"", vec![1_000, 2_000, 3_000]),
        ("kind = \"default\", spread = false", vec![200, 400, 800]),
    ] {
        let stage = Stage::set();

        let delays =
            attempts_after(&stage, with(&stage, &format!("retry = {{ {options}, max_retries = 3 }}"))).await;

        close(&delays, &expected);
    }
}

/// T2, M4: jitter is added to either kind, and a spread multiplies.
#[tokio::test(start_paused = true)]
async fn randomness_is_added_to_either_kind() {
    for (options, least, most) in [
        ("kind = \"fixed\", initial = \"1s\", jitter = \"500ms\"", 1_000, 1_500),
        ("kind = \"exponential\", multiplier = 1.0, jitter = \"500ms\"", 1_000, 1_500),
        ("kind = \"fixed\", initial = \"1s\", spread = true", 500, 1_500),
    ] {
        let stage = Stage::set();

        let retry = format!("retry = {{ {options}, max_retries = 20 }}");
        let delays = attempts_after(&stage, with(&stage, &retry)).await;

        let range = Duration::from_millis(least)..Duration::from_millis(most + 30);
        assert!(
            delays.len() == 20 && delays.iter().all(|delay| range.contains(delay)),
            "{options}: {delays:?}"
        );
        let (first, last) = (delays.iter().min().unwrap(), delays.iter().max().unwrap());
        assert!(*last - *first > Duration::from_millis((most - least) / 3), "{options}: {delays:?}");
    }
}

#[derive(Debug)]
enum PaymentError {
    Declined,
    TooMany,
}

impl fmt::Display for PaymentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind())
    }
}

impl Error for PaymentError {}

impl ErrorKind for PaymentError {
    const KINDS: &'static [&'static str] = &["declined", "rate_limited"];

    fn kind(&self) -> &'static str {
        match self {
            Self::Declined => "declined",
            Self::TooMany => "rate_limited",
        }
    }
}

/// How often an event was delivered whose listener fails with this error.
async fn attempts_over(options: &str, error: fn() -> ListenerError) -> u32 {
    let (stage, seen) = (Stage::set(), Notes::<Delivery>::new());
    let options = format!("retry = {{ kind = \"fixed\", initial = \"1s\", max_attempts = 3, {options} }}");
    let outbox = with(&stage, &options)
        .error_kinds::<PaymentError>()
        .error_kind("odd", |error| error.is::<fmt::Error>())
        .on("OrderPlaced", seen.answering(move |_| Err(error())))
        .start()
        .unwrap();
    write(&outbox, placed("order-1")).await;
    stage.pass(HOUR).await;
    stage.row("order-1").await.attempts
}

/// T3, M4: `retry.only` and `retry.never` are E's include and exclude lists, by kind; include wins.
#[tokio::test(start_paused = true)]
async fn kinds_of_errors_decide_whether_to_retry() {
    let declined: fn() -> ListenerError = || PaymentError::Declined.into();
    let too_many: fn() -> ListenerError = || PaymentError::TooMany.into();
    let reset: fn() -> ListenerError = || std::io::Error::other("reset").into();
    let odd: fn() -> ListenerError = || fmt::Error.into();

    assert_eq!(attempts_over("only = [\"io\"]", reset).await, 3);
    assert_eq!(attempts_over("only = [\"io\"]", declined).await, 1);
    assert_eq!(attempts_over("only = [\"io\", \"rate_limited\"]", too_many).await, 3);
    assert_eq!(attempts_over("never = [\"declined\"]", declined).await, 1);
    assert_eq!(attempts_over("never = [\"declined\"]", too_many).await, 3);
    assert_eq!(attempts_over("never = [\"odd\"]", odd).await, 1);
    assert_eq!(
        attempts_over("only = [\"declined\"], never = [\"declined\"]", declined).await,
        3,
        "include wins"
    );
    assert_eq!(attempts_over("only = [\"declined\"], never = [\"declined\"]", reset).await, 1);
}

/// T3, D10: a listener that takes too long, or panics, has a kind too.
#[tokio::test(start_paused = true)]
async fn time_outs_and_panics_have_kinds() {
    for (kind, attempts) in [("timeout", 2), ("panic", 1)] {
        let (stage, seen) = (Stage::set(), Notes::<Delivery>::new());
        let noted = seen.clone();
        let options = format!("retry = {{ kind = \"fixed\", max_attempts = 2, only = [\"{kind}\"] }}");
        let outbox = with(&stage, &options)
            .on("OrderPlaced", move |delivery: Delivery| {
                noted.note(delivery);
                std::future::pending::<Result<(), ListenerError>>()
            })
            .start()
            .unwrap();

        write(&outbox, placed("order-1")).await;
        stage.pass(HOUR).await;

        assert_eq!(seen.len(), attempts, "{kind}");
    }
    let panics: fn() -> ListenerError = || panic!("no such card");
    assert_eq!(attempts_over("only = [\"panic\"]", panics).await, 3);
    assert_eq!(attempts_over("never = [\"panic\"]", panics).await, 1);
}

/// T3: a kind that nobody registered is refused by name, with those that are known.
#[tokio::test(start_paused = true)]
async fn unknown_kinds_are_refused_at_the_start() {
    let stage = Stage::set();
    let outbox = with(&stage, "[retry]\nnever = [\"io\", \"declind\"]").error_kinds::<PaymentError>();

    let error = outbox.start().unwrap_err();

    assert_eq!(
        error.to_string(),
        "`retry.never` names errors of the kind `declind`, which nobody registered; did you mean `declined`? known are `declined`, `io`, `panic`, `rate_limited`, `timeout`; make others known with `error_kinds` or `error_kind` (`retry.never` comes from line 2, column 9)"
    );
}

/// M4: the rest of what the poller and the purge are told takes effect, too.
#[tokio::test(start_paused = true)]
async fn skipping_holding_and_purging_are_configured() {
    let (stage, seen) = (Stage::set(), Notes::<Delivery>::new());
    stage.pending(&["order-1"]).await;
    let options = "skip_recent = \"30s\"\nkeep_done_for = \"10m\"\nunroutable = \"hold\"";
    let outbox = with(&stage, options).on("OrderPlaced", seen.listener()).start().unwrap();

    stage.pass(29 * SECOND).await;
    assert_eq!(seen.len(), 0);
    stage.pass(10 * SECOND).await;
    assert_eq!(seen.ids(), ["order-1"]);
    stage.pass(2 * HOUR).await;
    assert!(!stage.has_row("order-1").await, "it is purged");

    let event = pillarbox::Event::builder("Unheard").id("order-2").json_text("{}");
    write(&outbox, event).await;
    stage.pass(HOUR).await;
    assert_eq!(stage.status("order-2").await, Status::Retry, "it is held");
}
