//! Owned partitions: shares, handing over, and taking over.

use std::time::Duration;

use pillarbox::store::{Holding, Instance, Mode, Owner, Ownership};
use pillarbox::{Delivery, MemoryStore, Outbox, OutboxBuilder, PARTITIONS, Stopped};
use pillarbox_testkit::acceptance::Desk;

use crate::owning::run_of;
use crate::stage::{HOUR, MILLISECOND, Notes, SECOND, Stage};

fn ordered(stage: &Stage) -> OutboxBuilder<MemoryStore> {
    stage.outbox().ordered()
}

/// What is known of an instance that nobody has started.
fn instance(name: &str, mode: Mode) -> Instance {
    Instance { owner: Owner::new(name, 1), is_named: false, mode, live_for: 30 * SECOND }
}

fn all_partitions() -> Vec<u8> {
    (0..=u8::MAX).collect()
}

/// Joins and takes every partition that is free, as a process would that then dies.
async fn take_all(stage: &Stage, name: &str) -> Vec<Holding> {
    let instance = instance(name, Mode::Ownership);
    stage.store.join(&instance).await.unwrap();
    stage.store.acquire(&instance, &all_partitions()).await.unwrap()
}

/// O4: two instances come to equal shares, and each event is delivered once.
#[tokio::test(start_paused = true)]
async fn instances_share_the_partitions() {
    let (stage, seen) = (Stage::set(), [Notes::<Delivery>::new(), Notes::<Delivery>::new()]);
    let start = |seen: &Notes<Delivery>| ordered(&stage).on("OrderPlaced", seen.listener()).start().unwrap();
    let first = start(&seen[0]);
    stage.pass(SECOND).await;
    let second = start(&seen[1]);
    stage.pass(60 * SECOND).await;

    for order in 0..512 {
        stage.pending(&[&format!("order-{order}")]).await;
    }
    stage.pass(60 * SECOND).await;

    let shares = [first.partitions(), second.partitions()].map(|partitions| partitions.len());
    assert_eq!(shares, [PARTITIONS / 2, PARTITIONS / 2]);
    assert_eq!(seen[0].len() + seen[1].len(), 512);
    assert!(seen.iter().all(|seen| seen.len() > 100), "{} and {}", seen[0].len(), seen[1].len());
}

/// O4: while the members stay, nothing moves, for a day.
#[tokio::test(start_paused = true)]
async fn nothing_moves_while_the_members_stay() {
    let (stage, seen) = (Stage::set(), Notes::<Delivery>::new());
    let start = || ordered(&stage).on("OrderPlaced", seen.listener()).start().unwrap();
    let members: Vec<Outbox<MemoryStore>> = (0..3).map(|_| start()).collect();
    stage.pass(120 * SECOND).await;
    let shares = || members.iter().map(Outbox::partitions).collect::<Vec<_>>();
    let before = shares();
    let mut sizes: Vec<usize> = before.iter().map(Vec::len).collect();
    sizes.sort_unstable();
    assert_eq!(sizes, [85, 85, 86]);

    stage.pass(24 * HOUR).await;

    assert_eq!(shares(), before, "with the same epochs");
}

/// O5: a graceful stop gives everything back, so that the next owner waits for nothing.
#[tokio::test(start_paused = true)]
async fn graceful_stop_gives_everything_back() {
    let (stage, seen) = (Stage::set(), Notes::<Delivery>::new());
    let outbox = ordered(&stage).on("OrderPlaced", seen.listener()).start().unwrap();
    stage.pass(10 * SECOND).await;
    assert_eq!(outbox.partitions().len(), PARTITIONS);

    outbox.close().await;
    let taken = take_all(&stage, "next").await;

    assert_eq!(taken.len(), PARTITIONS);
    assert!(taken.iter().all(|holding| holding.crashes == 0), "nobody has crashed");
}

/// O5: the partitions of an instance that fell silent are taken over, and not before.
#[tokio::test(start_paused = true)]
async fn partitions_of_the_dead_are_taken_over() {
    let (stage, seen) = (Stage::set(), Notes::<Delivery>::new());
    assert_eq!(take_all(&stage, "victim").await.len(), PARTITIONS);
    stage.pending(&["order-1"]).await;
    let died = stage.now();
    let outbox = ordered(&stage).on("OrderPlaced", seen.listener()).start().unwrap();

    stage.pass(29 * SECOND).await;
    assert_eq!(seen.len(), 0, "the lease lasts");
    stage.pass(7 * SECOND).await;

    assert_eq!(seen.ids(), ["order-1"]);
    assert!(stage.now() - died <= 36 * SECOND);
    assert_eq!(outbox.partitions().len(), PARTITIONS);
}

/// O5: with a silence of 2 s and a heartbeat each second, what a crashed instance had is taken over within 3 s.
#[tokio::test(start_paused = true)]
async fn short_silence_makes_short_pauses() {
    let (stage, seen) = (Stage::set(), Notes::<Delivery>::new());
    let outbox = ordered(&stage).margin(Duration::ZERO).silent_after(2 * SECOND).heartbeat_every(SECOND);
    let victim = Instance { live_for: 2 * SECOND, ..instance("victim", Mode::Ownership) };
    stage.store.join(&victim).await.unwrap();
    assert_eq!(stage.store.acquire(&victim, &all_partitions()).await.unwrap().len(), PARTITIONS);
    stage.pending(&["order-1"]).await;
    // A heartbeat falls just before the end of the victim's leases, and the next a second later.
    stage.pass(SECOND - 10 * MILLISECOND).await;
    let outbox = outbox.on("OrderPlaced", seen.listener()).start().unwrap();

    stage.pass(SECOND).await;
    assert_eq!(seen.len(), 0, "the leases last");
    stage.pass(SECOND + 10 * MILLISECOND).await;

    assert_eq!((seen.ids(), outbox.partitions().len()), (vec!["order-1".to_owned()], PARTITIONS));
}

/// O5: what runs when a partition is to be handed over ends first, and its followers are delivered by the next owner.
#[tokio::test(start_paused = true)]
async fn partition_is_handed_over_when_it_is_drained() {
    let (stage, (listener, mut desk)) = (Stage::set(), Desk::open());
    let older = ordered(&stage).delivery_timeout(HOUR / 4).lease_for(HOUR / 2).workers(64);
    let older = older.on("OrderPlaced", listener).start().unwrap();
    stage.pass(SECOND).await;
    for order in 0..32 {
        stage.insert(run_of(&format!("order-{order}"), 2)).await;
    }
    older.poll().await.unwrap();
    stage.quiet().await;

    let seen = Notes::<Delivery>::new();
    let younger = ordered(&stage).on("OrderPlaced", seen.listener()).start().unwrap();
    stage.pass(60 * SECOND).await;
    assert_eq!(seen.len(), 0, "the first of each key still runs");
    while let Some(call) = desk.waiting() {
        call.succeed();
        stage.quiet().await;
    }
    stage.pass(60 * SECOND).await;

    assert!(seen.ids().iter().all(|id| id.ends_with(".2")), "{:?}", seen.ids());
    assert!(!seen.ids().is_empty());
    assert_eq!(younger.partitions().len(), PARTITIONS / 2);
    assert_eq!(older.counts().lost_leases, 0);
    assert_eq!(older.counts().done + younger.counts().done, 64);
}

/// S6: an instance of the other mode is refused, with the names of those who are alive.
#[tokio::test(start_paused = true)]
async fn other_mode_is_refused() {
    let (stage, seen) = (Stage::set(), Notes::<Delivery>::new());
    stage.store.join(&instance("relay-7", Mode::Claims)).await.unwrap();

    let outbox = ordered(&stage).on("OrderPlaced", seen.listener()).start().unwrap();
    let stopped = outbox.run(std::future::pending()).await;

    let Err(Stopped::Refused(reason)) = stopped else { panic!("{stopped:?}") };
    assert!(reason.contains("relay-7") && reason.contains("claims"), "{reason}");
}

/// S10: an instance whose name another bears by now stops at its next heartbeat.
#[tokio::test(start_paused = true)]
async fn older_namesake_stops_by_its_heartbeat() {
    let (stage, seen) = (Stage::set(), Notes::<Delivery>::new());
    let start = || ordered(&stage).name("relay-1").on("OrderPlaced", seen.listener()).start().unwrap();
    let older = start();
    stage.pass(SECOND).await;

    let younger = start();
    assert_eq!(older.stopped().await, Stopped::Superseded);
    stage.pass(SECOND).await;

    assert_eq!((older.partitions().len(), younger.partitions().len()), (0, PARTITIONS));
}

/// O5: a named instance that died and is started again has its partitions at once, before anybody counts it as dead.
#[tokio::test(start_paused = true)]
async fn restarted_instance_takes_over_its_own() {
    let (stage, seen) = (Stage::set(), Notes::<Delivery>::new());
    let before = Instance { is_named: true, ..instance("relay-1", Mode::Ownership) };
    stage.store.join(&before).await.unwrap();
    stage.store.acquire(&before, &all_partitions()).await.unwrap();
    stage.pending(&["order-1"]).await;

    let outbox = ordered(&stage).name("relay-1").on("OrderPlaced", seen.listener()).start().unwrap();
    stage.pass(SECOND).await;

    assert_eq!(seen.ids(), ["order-1"]);
    assert_eq!(outbox.partitions().len(), PARTITIONS);
}
