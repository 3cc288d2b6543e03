//! Who takes part, who owns what, and what waits: asked for, and as metrics.

use std::time::Duration;

use pillarbox::store::{Census, Mode, Ownership};
use pillarbox::{
    DeadHead, Delivery, Keys, ListenerError, MetricsExporter, PARTITIONS, Retry, Share, partition_of,
};

use crate::owning::run_of;
use crate::stage::{HOUR, Notes, SECOND, Stage};

/// Notes shares, keys and censuses, and throws all other numbers away.
#[derive(Clone, Default)]
struct Ledger {
    shares: Notes<Option<Share>>,
    keys: Notes<Option<Keys>>,
    censuses: Notes<Option<Census>>,
}

impl Ledger {
    /// Instances, partitions held and fair share, as they were last told.
    fn share(&self) -> Option<(usize, usize, usize)> {
        let last = *self.shares.all().last().expect("a share was told");
        last.map(|Share { instances, held, fair, .. }| (instances, held, fair))
    }

    /// Keys that are blocked and that are parked, as they were last told.
    fn keys(&self) -> Option<(usize, usize)> {
        let last = *self.keys.all().last().expect("keys were told");
        last.map(|Keys { blocked, parked, .. }| (blocked, parked))
    }
}

impl MetricsExporter for Ledger {
    fn increment_hot_enqueued(&self) {}
    fn increment_hot_dropped(&self) {}
    fn increment_cold_enqueued(&self) {}
    fn increment_dispatch_success(&self) {}
    fn increment_dispatch_failure(&self) {}
    fn increment_dispatch_dead(&self) {}
    fn record_queue_depths(&self, _: usize, _: usize) {}
    fn record_oldest_lag(&self, _: Option<Duration>) {}
    fn record_share(&self, share: Option<Share>) {
        self.shares.note(share);
    }
    fn record_keys(&self, keys: Option<Keys>) {
        self.keys.note(keys);
    }
    fn record_census(&self, census: Option<&Census>) {
        self.censuses.note(census.cloned());
    }
}

/// M2, O4: every heartbeat tells how many instances there are, what this one holds and what it should; one that has left
/// knows nothing any more.
#[tokio::test(start_paused = true)]
async fn share_is_told_with_every_heartbeat() {
    let (stage, seen) = (Stage::set(), Notes::<Delivery>::new());
    let ledgers = [Ledger::default(), Ledger::default()];
    let start = |ledger: &Ledger| {
        let outbox = stage.outbox().ordered().on("OrderPlaced", seen.listener());
        outbox.metrics(ledger.clone()).start().unwrap()
    };
    let first = start(&ledgers[0]);
    stage.pass(21 * SECOND).await;
    assert_eq!(ledgers[0].share(), Some((1, PARTITIONS, PARTITIONS)));
    assert_eq!(ledgers[0].shares.len(), 5, "at once, and every five seconds");

    let second = start(&ledgers[1]);
    stage.pass(60 * SECOND).await;

    for ledger in &ledgers {
        assert_eq!(ledger.share(), Some((2, PARTITIONS / 2, PARTITIONS / 2)));
    }
    second.close().await;
    assert_eq!(ledgers[1].share(), None);
    stage.pass(60 * SECOND).await;
    assert_eq!(ledgers[0].share(), Some((1, PARTITIONS, PARTITIONS)));
    first.close().await;
}

/// M2, M6: while heartbeats fail the share is unknown, never zero.
#[tokio::test(start_paused = true)]
async fn share_is_unknown_while_heartbeats_fail() {
    let (stage, ledger, seen) = (Stage::set(), Ledger::default(), Notes::<Delivery>::new());
    let (outbox, faults) = stage.faulty();
    let outbox = outbox.ordered().on("OrderPlaced", seen.listener()).metrics(ledger.clone()).start().unwrap();
    stage.pass(6 * SECOND).await;
    let before = ledger.shares.len();

    faults.members.next(2);
    stage.pass(20 * SECOND).await;

    let told = ledger.shares.all().split_off(before);
    assert_eq!(told[..2], [None, None]);
    let known: Vec<bool> = told.iter().map(Option::is_some).collect();
    assert!(known.len() > 4 && known[2..].iter().all(|known| *known), "{told:?}");
    assert_eq!(ledger.share(), Some((1, PARTITIONS, PARTITIONS)));
    outbox.close().await;
}

/// M2, O7: every heartbeat tells how many keys of this instance are blocked and parked; all instances together tell
/// what a census counts, and a key that is freed counts no more.
#[tokio::test(start_paused = true)]
async fn keys_are_told_with_every_heartbeat() {
    let (stage, seen) = (Stage::set(), Notes::<Delivery>::new());
    let ledgers = [Ledger::default(), Ledger::default()];
    let start = |ledger: &Ledger| {
        let fails = seen.answering(|delivery| match delivery.id() {
            id if id.starts_with("parked") => Err(ListenerError::permanent("address unknown")),
            id if id.starts_with("blocked") => Err(ListenerError::new("no answer")),
            _ => Ok(()),
        });
        let outbox = stage.outbox().ordered().on_dead_head(DeadHead::Park).retry(Retry::fixed(HOUR));
        outbox.on("OrderPlaced", fails).metrics(ledger.clone()).start().unwrap()
    };
    let outboxes = [start(&ledgers[0]), start(&ledgers[1])];
    stage.pass(60 * SECOND).await;
    assert_eq!(ledgers.each_ref().map(Ledger::keys), [Some((0, 0)); 2]);
    let keys: Vec<String> =
        (0..8).flat_map(|key| ["parked", "blocked", "free"].map(|kind| format!("{kind}-{key}"))).collect();
    for key in &keys {
        stage.insert(run_of(key, 2)).await;
    }
    stage.pass(60 * SECOND).await;
    let total = || {
        let [first, second] = ledgers.each_ref().map(|ledger| ledger.keys().expect("it is known"));
        (first.0 + second.0, first.1 + second.1)
    };

    assert_eq!(total(), (16, 8));
    let census = outboxes[0].census().await.unwrap();
    assert_eq!((census.blocked_keys, census.parked_keys), (16, 8));
    stage.store.skip(&["parked-0".to_owned(), "parked-1".to_owned(), "parked-2".to_owned()]).await.unwrap();
    stage.pass(30 * SECOND).await;
    assert_eq!(total(), (16, 8), "their second events have parked them anew");
    stage.store.skip(&["parked-0".to_owned(), "parked-1".to_owned(), "parked-2".to_owned()]).await.unwrap();
    stage.pass(30 * SECOND).await;
    assert_eq!(total(), (13, 5));
    for outbox in &outboxes {
        outbox.close().await;
    }
    assert_eq!(ledgers.each_ref().map(Ledger::keys), [None; 2], "who has left knows nothing");
}

/// M2, M6: keys are unknown, never zero, while partitions are held that were not looked at, and while heartbeats fail.
#[tokio::test(start_paused = true)]
async fn keys_are_unknown_until_they_were_looked_at() {
    let (stage, ledger, seen) = (Stage::set(), Ledger::default(), Notes::<Delivery>::new());
    let (outbox, faults) = stage.faulty();
    faults.reads.next(u32::MAX);
    let outbox = outbox.ordered().on("OrderPlaced", seen.listener()).metrics(ledger.clone()).start().unwrap();
    stage.pass(16 * SECOND).await;
    assert!(ledger.keys.len() >= 3);
    assert_eq!(ledger.keys.all().into_iter().flatten().count(), 0, "nothing was looked at");

    faults.reads.next(0);
    stage.pass(10 * SECOND).await;
    assert_eq!(ledger.keys(), Some((0, 0)));
    faults.members.next(u32::MAX);
    stage.pass(10 * SECOND).await;

    assert_eq!(ledger.keys(), None);
    faults.members.next(0);
    stage.pass(60 * SECOND).await;
    assert_eq!(ledger.keys(), Some((0, 0)));
    outbox.close().await;
}

/// M5, O7: a census tells who owns what, what waits where, and how many keys are blocked and parked; metrics hear it.
#[tokio::test(start_paused = true)]
async fn census_tells_what_is_going_on() {
    let (stage, ledger, seen) = (Stage::set(), Ledger::default(), Notes::<Delivery>::new());
    let fails = seen.answering(|delivery| match delivery.id() {
        "parked.1" => Err(ListenerError::permanent("address unknown")),
        "blocked.1" => Err(ListenerError::new("no answer")),
        _ => Ok(()),
    });
    let outbox = stage.outbox().ordered().on_dead_head(DeadHead::Park).name("relay").metrics(ledger.clone());
    let outbox = outbox.on("OrderPlaced", fails).start().unwrap();
    stage.pass(SECOND).await;
    for key in ["parked", "blocked", "free"] {
        stage.insert(run_of(key, 3)).await;
    }
    outbox.poll().await.unwrap();
    stage.quiet().await;

    let census = outbox.census().await.unwrap();

    assert_eq!((census.mode, census.blocked_keys, census.parked_keys), (Mode::Ownership, 2, 1));
    let [relay] = &census.instances[..] else { panic!("{:?}", census.instances) };
    assert_eq!((relay.owner.name(), relay.is_alive), ("relay", true));
    assert!(relay.joined_ago >= SECOND && relay.silent_for < 5 * SECOND, "{relay:?}");
    assert_eq!((census.held_by(&relay.owner).count(), census.free().count()), (PARTITIONS, 0));
    for (key, aside) in [("parked", 2), ("blocked", 3), ("free", 0)] {
        let tenancy = &census.partitions[usize::from(partition_of(key))];
        assert_eq!((tenancy.fresh, tenancy.aside), (0, aside), "{key}");
        assert_eq!(tenancy.oldest_due_for.is_some(), aside > 0, "{key}");
    }
    assert_eq!(ledger.censuses.all(), [Some(census)]);
    outbox.close().await;
}

/// M6: a census that fails is an error, and unknown to the metrics.
#[tokio::test(start_paused = true)]
async fn census_that_fails_is_unknown() {
    let (stage, ledger, seen) = (Stage::set(), Ledger::default(), Notes::<Delivery>::new());
    let (outbox, faults) = stage.faulty();
    let outbox = outbox.on("OrderPlaced", seen.listener()).metrics(ledger.clone()).start().unwrap();

    faults.reads.next(1);
    let failed = outbox.census().await;
    let census = outbox.census().await.unwrap();

    assert!(failed.is_err(), "{failed:?}");
    assert_eq!((census.mode, census.partitions.len()), (Mode::Claims, 0));
    assert_eq!(ledger.censuses.all(), [None, Some(census)]);
    outbox.close().await;
}
