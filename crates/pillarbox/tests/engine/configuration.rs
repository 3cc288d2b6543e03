//! Options that make no sense are refused with their name, their value and what would work.

use std::time::Duration;

use pillarbox::store::{Mode, Status};
use pillarbox::{
    ConfigError, DeadHead, Delivery, FanOut, GLOBAL, Handlers, Leased, ListenerError, MemorySink,
    MemoryStore, OutboxBuilder, PollerHandler, Retry,
};

use crate::stage::{HOUR, Notes, SECOND, Stage, placed, write};

#[track_caller]
fn refused(change: impl FnOnce(OutboxBuilder<MemoryStore>) -> OutboxBuilder<MemoryStore>, expected: &str) {
    let error = change(Stage::set().outbox()).start().unwrap_err();
    assert_eq!(error.to_string(), expected);
}

/// D1, D7: nothing can be of no size.
#[tokio::test(start_paused = true)]
async fn zero_is_refused() {
    refused(|outbox| outbox.workers(0), "`workers` is 0: it must be at least 1");
    refused(|outbox| outbox.hot_queue(0), "`hot_queue` is 0: it must be at least 1");
    refused(|outbox| outbox.cold_queue(0), "`cold_queue` is 0: it must be at least 1");
    refused(|outbox| outbox.batch_size(0), "`batch_size` is 0: it must be at least 1");
    refused(|outbox| outbox.run_limits(0, 1), "`run_events` is 0: it must be at least 1");
    refused(|outbox| outbox.run_limits(1, 0), "`run_bytes` is 0: it must be at least 1");
    refused(|outbox| outbox.max_starts(0), "`max_starts` is 0: it must be at least 1");
    refused(
        |outbox| outbox.delivery_timeout(Duration::ZERO),
        "`delivery_timeout` is 0ns: it must be longer than zero",
    );
    refused(|outbox| outbox.poll_every(Duration::ZERO), "`poll_every` is 0ns: it must be longer than zero");
}

/// S5, D10: a lease that does not exceed the delivery timeout and the margin is refused.
#[tokio::test(start_paused = true)]
async fn lease_shorter_than_a_delivery_is_refused() {
    let expected = |lease: &str, needed: &str| {
        format!(
            "`lease_for` is {lease}: it must exceed `delivery_timeout` and `margin`, together {needed}, \
             or an event is taken by another while its listener runs"
        )
    };

    refused(|outbox| outbox.lease_for(35 * SECOND), &expected("35s", "35s"));
    refused(|outbox| outbox.delivery_timeout(300 * SECOND), &expected("300s", "305s"));
    refused(|outbox| outbox.lease_for(40 * SECOND).margin(10 * SECOND), &expected("40s", "40s"));
    assert!(Stage::set().outbox().lease_for(36 * SECOND).start().is_ok());
}

/// S10: a lease longer than the longest is refused, at birth as well.
#[tokio::test(start_paused = true)]
async fn lease_longer_than_the_longest_is_refused() {
    refused(|outbox| outbox.lease_for(HOUR + SECOND), "`lease_for` is 3601s: at most 3600s");
    refused(
        |outbox| outbox.lease_for(HOUR).delivery_timeout(3_594 * SECOND),
        "`delivery_timeout` is 3594s: with twice the `margin` it makes a lease of 3604s, at most 3600s",
    );
    assert!(Stage::set().outbox().lease_for(HOUR).start().is_ok());
}

/// P1: the largest batch cannot be smaller than the first.
#[tokio::test(start_paused = true)]
async fn max_batch_below_batch_size_is_refused() {
    refused(
        |outbox| outbox.batch_size(50).max_batch(20),
        "`max_batch` is 20: it must be at least `batch_size`, 50",
    );
}

/// P1: a name must fit where it is stored.
#[tokio::test(start_paused = true)]
async fn unfit_name_is_refused() {
    let remedy = "it must have 1 to 100 characters, none of them `/`";
    refused(|outbox| outbox.name(""), &format!("`name` is ``: {remedy}"));
    refused(|outbox| outbox.name("a/b"), &format!("`name` is `a/b`: {remedy}"));
    let long = "x".repeat(101);
    refused(|outbox| outbox.name(&long), &format!("`name` is `{long}`: {remedy}"));
}

/// S9: done events cannot be both deleted and kept.
#[tokio::test(start_paused = true)]
async fn keeping_and_deleting_done_events_is_refused() {
    refused(
        |outbox| outbox.delete_done().keep_done_for(HOUR),
        "`keep_done_for` is 3600s: with `delete_done` there is nothing to keep; use one of the two",
    );
}

/// T2: a retry policy that contradicts itself is refused when the outbox is started.
#[tokio::test(start_paused = true)]
async fn contradicting_retry_policy_is_refused() {
    refused(
        |outbox| outbox.retry(Retry::exponential().max_attempts(5).max_retries(5)),
        "both `max_attempts` (5) and `max_retries` (5) are set; choose one",
    );
    refused(
        |outbox| outbox.retry(Retry::exponential().max_attempts(0)),
        "`max_attempts` is 0, but the first delivery counts too; set it to 1 for no retries",
    );
    let error = Stage::set().outbox().retry(Retry::default().multiplier(0.5)).start().unwrap_err();
    assert!(matches!(error, ConfigError::Retry(_)), "{error:?}");
}

/// L1: routes that nobody would follow are refused, not ignored.
#[tokio::test(start_paused = true)]
async fn routes_that_nobody_follows_are_refused() {
    let remedy = "leave one of the two out";
    let others =
        "one `handlers`, `routing` or `registry` takes the place of `on` and `route`; leave the others out";
    let on = |outbox: OutboxBuilder<MemoryStore>| outbox.on_sink(GLOBAL, "OrderPlaced", MemorySink::new());
    refused(
        |outbox| on(outbox).writer_only(),
        &format!("`on` is set: an outbox that only writes calls no listener; {remedy}"),
    );
    refused(|outbox| on(outbox).registry(FanOut::new()), &format!("`on` is set: {others}"));
    let handlers = || Handlers::new().on_any("audit", |_: Delivery| async { Ok::<_, ListenerError>(()) });
    refused(
        |outbox| outbox.handlers(handlers()).writer_only(),
        &format!("`handlers` is set: an outbox that only writes calls no listener; {remedy}"),
    );
    refused(
        |outbox| outbox.handlers(handlers()).handlers(handlers()),
        &format!("`handlers` is set: {others}"),
    );
    refused(
        |outbox| outbox.handlers(handlers()).registry(FanOut::new()),
        &format!("`registry` is set: {others}"),
    );
}

/// D1: durations that no clock can add up are refused, too.
#[tokio::test(start_paused = true)]
async fn endless_durations_are_refused() {
    let error = Stage::set().outbox().delivery_timeout(Duration::MAX).start().unwrap_err();

    assert!(error.to_string().starts_with("`lease_for` is 300s"), "{error}");
}

/// D1, O4: where leases do not depend on them, durations without an end mean never, and the outbox works.
#[tokio::test(start_paused = true)]
async fn endless_durations_mean_never() {
    let (stage, seen) = (Stage::set(), Notes::<Delivery>::new());
    let outbox = stage.outbox().ordered().poll_every(Duration::MAX).delivery_timeout(Duration::MAX);
    let outbox = outbox
        .drain_timeout(Duration::MAX)
        .shutdown_timeout(Duration::MAX)
        .rebalance_every(Duration::MAX)
        .margin(Duration::ZERO);
    let outbox = outbox.on("OrderPlaced", seen.listener()).start().unwrap();
    stage.pass(SECOND).await;

    write(&outbox, placed("order-1")).await;
    stage.pass(SECOND).await;
    outbox.close().await;

    assert_eq!(seen.ids(), ["order-1"]);
    assert_eq!(stage.status("order-1").await, Status::Done);
}

/// O2, O7: order and its policies are refused where they would do nothing.
#[tokio::test(start_paused = true)]
async fn order_without_ownership_is_refused() {
    refused(
        |outbox| outbox.mode(Mode::Claims).ordered(),
        "`ordered` is set: the mode `claims` keeps no order; use `Mode::Ownership`, or leave `mode` out",
    );
    let parked = "`on_dead_head` is `Park`: a key is parked only where order is kept and `stop_on_first_failure` is on";
    refused(|outbox| outbox.mode(Mode::Ownership).on_dead_head(DeadHead::Park), parked);
    refused(|outbox| outbox.ordered().stop_on_first_failure(false).on_dead_head(DeadHead::Park), parked);
    refused(
        |outbox| outbox.ordered().skip_recent(SECOND),
        "`skip_recent` is 1s: an owner reads everything in its partitions; leave it out with the mode `ownership`",
    );
}

/// O5: heartbeats that cannot keep an instance alive are refused; a long delivery is not, for they outlast it.
#[tokio::test(start_paused = true)]
async fn silence_shorter_than_two_heartbeats_is_refused() {
    refused(
        |outbox| outbox.ordered().silent_after(14 * SECOND),
        "`silent_after` is 14s: it must be at least twice `heartbeat_every` and the `margin`, together 15s, or one late heartbeat loses everything",
    );
    refused(|outbox| outbox.ordered().silent_after(HOUR + SECOND), "`silent_after` is 3601s: at most 3600s");
    refused(
        |outbox| outbox.ordered().heartbeat_every(Duration::ZERO),
        "`heartbeat_every` is 0ns: it must be longer than zero",
    );
    refused(
        |outbox| outbox.ordered().rebalance_every(Duration::ZERO),
        "`rebalance_every` is 0ns: it must be longer than zero",
    );
    assert!(Stage::set().outbox().ordered().delivery_timeout(2 * HOUR).start().is_ok());
}

/// O4: the whole of a shutdown that its drain takes up alone is refused; a longer drain alone makes the whole longer.
#[tokio::test(start_paused = true)]
async fn shutdown_that_is_all_drain_is_refused() {
    refused(
        |outbox| outbox.shutdown_timeout(5 * SECOND),
        "`shutdown_timeout` is 5s: it must be longer than `drain_timeout`, 5s: what is left of it is for recording and giving back",
    );
    assert!(Stage::set().outbox().drain_timeout(HOUR).start().is_ok());
}

/// O4: where rows are claimed a silence is checked as well; what outcomes need is in the leases of the rows.
#[tokio::test(start_paused = true)]
async fn silence_is_checked_where_rows_are_claimed() {
    refused(
        |outbox| outbox.silent_after(9 * SECOND),
        "`silent_after` is 9s: it must be at least twice `heartbeat_every`, 10s, or one late heartbeat counts as death",
    );
    refused(|outbox| outbox.silent_after(HOUR + SECOND), "`silent_after` is 3601s: at most 3600s");
    assert!(Stage::set().outbox().margin(60 * SECOND).start().is_ok());
}

/// A handler that takes nothing.
struct Idle;

impl PollerHandler for Idle {
    fn capacity(&self) -> usize {
        0
    }

    fn handle(&self, _: Leased) -> bool {
        false
    }
}

/// O2: a handler of one's own would break the order that an owner keeps.
#[tokio::test(start_paused = true)]
async fn handler_of_ones_own_with_ownership_is_refused() {
    refused(
        |outbox| outbox.ordered().poller_handler(Idle),
        "`poller_handler` is set: with `Mode::Ownership` events go to listeners and sinks; leave one of the two out",
    );
}
