//! A key that has more events than memory has for it, and others of its partition.

use std::time::Duration;

use pillarbox::store::{Status, TxStore};
use pillarbox::{BoxFuture, Delivery, Event, ListenerError, MemoryStore, Outbox, partition_of};

use crate::owning::run_of;
use crate::stage::{MILLISECOND, Notes, SECOND, Stage};

const HOT: &str = "order-1";
const SECOND_HOT: &str = "order-1001";
/// More than a key may have in memory, several times over.
const EVENTS: usize = 3_000;
const POLL_EVERY: Duration = Duration::from_secs(5);

/// Another key of the partition that the hot one is in.
fn neighbour() -> String {
    let mut keys = (2..).map(|number| format!("order-{number}"));
    keys.find(|key| partition_of(key) == partition_of(HOT)).unwrap()
}

/// Events `key.1` to `key.n` of the neighbour.
fn of_neighbour(count: usize) -> Vec<Event> {
    run_of(&neighbour(), count)
}

/// An outbox whose listener takes its time over the hot key.
fn slow(stage: &Stage, seen: &Notes<Delivery>, time: Duration) -> Outbox<MemoryStore> {
    let (clock, seen) = (stage.runtime.clock.clone(), seen.clone());
    let listener = move |delivery: Delivery| -> BoxFuture<'static, Result<(), ListenerError>> {
        let pause = if is_hot(&delivery) { time } else { Duration::ZERO };
        let pause = clock.sleep(pause);
        seen.note(delivery);
        Box::pin(async move {
            pause.await;
            Ok(())
        })
    };
    stage.outbox().ordered().poll_every(POLL_EVERY).on("OrderPlaced", listener).start().unwrap()
}

fn is_hot(delivery: &Delivery) -> bool {
    [Some(HOT), Some(SECOND_HOT)].contains(&delivery.key())
}

/// How many events of the neighbour have been delivered.
fn passed(seen: &Notes<Delivery>) -> usize {
    seen.all().iter().filter(|delivery| delivery.key() != Some(HOT)).count()
}

/// Every event of the hot key that is set aside.
async fn aside(stage: &Stage) -> Vec<usize> {
    let mut aside = Vec::new();
    for number in 1..=EVENTS {
        if stage.status(&format!("{HOT}.{number}")).await == Status::Retry {
            aside.push(number);
        }
    }
    aside
}

/// O6: a hot key that is alone in its partition is read once and written once, however long it takes.
#[tokio::test(start_paused = true)]
async fn nothing_of_a_key_that_is_alone_is_set_aside() {
    let (stage, seen) = (Stage::set(), Notes::<Delivery>::new());
    stage.insert(run_of(HOT, EVENTS)).await;

    let outbox = slow(&stage, &seen, 20 * MILLISECOND);
    for _ in 0..14 {
        stage.pass(POLL_EVERY).await;
        assert_eq!(aside(&stage).await, [0; 0], "at {:?}", stage.now());
    }

    let expected: Vec<String> = (1..=EVENTS).map(|number| format!("{HOT}.{number}")).collect();
    assert_eq!(seen.ids(), expected);
    assert_eq!(outbox.counts().done, EVENTS as u64);
}

/// Guarantee 7: slow hot keys leave room for those of other partitions, which wait for nothing.
#[tokio::test(start_paused = true)]
async fn keys_of_other_partitions_do_not_wait_for_hot_ones() {
    let (stage, seen) = (Stage::set(), Notes::<Delivery>::new());
    let keys: Vec<String> = (2..).map(|number| format!("order-{number}")).take(20).collect();
    let others: Vec<&String> = keys
        .iter()
        .filter(|key| ![partition_of(HOT), partition_of(SECOND_HOT)].contains(&partition_of(key)))
        .collect();
    stage.insert(run_of(HOT, EVENTS)).await;
    stage.insert(run_of(SECOND_HOT, EVENTS)).await;
    let outbox = slow(&stage, &seen, SECOND);
    stage.pass(10 * SECOND).await;

    for key in &others {
        stage.insert(run_of(key, 5)).await;
    }
    stage.pass(POLL_EVERY + SECOND).await;

    let hot = |delivery: &&Delivery| is_hot(delivery);
    assert_eq!(seen.len() - seen.all().iter().filter(hot).count(), 5 * others.len());
    drop(outbox);
}

/// Guarantee 7: whoever waits behind a hot key passes it after `poll_every`, and the key stays in order.
#[tokio::test(start_paused = true)]
async fn others_pass_a_hot_key() {
    let (stage, seen) = (Stage::set(), Notes::<Delivery>::new());
    stage.insert(run_of(HOT, EVENTS)).await;
    stage.insert(of_neighbour(3)).await;

    let _outbox = slow(&stage, &seen, 100 * MILLISECOND);
    stage.pass(POLL_EVERY - SECOND).await;
    assert_eq!(passed(&seen), 0);
    stage.pass(2 * SECOND).await;
    assert_eq!(passed(&seen), 3);

    stage.pass(400 * SECOND).await;
    let of_hot = seen.all().into_iter().filter(|delivery| delivery.key() == Some(HOT));
    let expected: Vec<String> = (1..=EVENTS).map(|number| format!("{HOT}.{number}")).collect();
    assert_eq!(of_hot.map(|delivery| delivery.id().to_owned()).collect::<Vec<_>>(), expected);
}

/// Guarantee 7: whoever comes when nobody was found to wait is found by the next look.
#[tokio::test(start_paused = true)]
async fn others_pass_a_hot_key_whenever_they_come() {
    let (stage, seen) = (Stage::set(), Notes::<Delivery>::new());
    stage.insert(run_of(HOT, EVENTS)).await;
    let _outbox = slow(&stage, &seen, SECOND);
    stage.pass(3 * POLL_EVERY + SECOND).await;

    stage.insert(of_neighbour(1)).await;
    stage.pass(POLL_EVERY).await;

    assert_eq!(passed(&seen), 1);
}

/// Guarantee 7: whoever was written amid a hot key and is committed late, after looks have passed it, passes as well.
#[tokio::test(start_paused = true)]
async fn late_commit_passes_a_hot_key() {
    let (stage, seen) = (Stage::set(), Notes::<Delivery>::new());
    let mut of_hot = run_of(HOT, EVENTS);
    let rest = of_hot.split_off(EVENTS / 2);
    stage.insert(of_hot).await;
    let mut late = stage.store.open();
    stage.store.insert(late.connection(), &of_neighbour(1), None).await.unwrap();
    stage.insert(rest).await;
    let _outbox = slow(&stage, &seen, SECOND);
    stage.pass(3 * POLL_EVERY + SECOND).await;

    late.commit().unwrap();
    stage.pass(POLL_EVERY).await;

    assert_eq!(passed(&seen), 1);
}

/// P1: who asks for a poll does not wait for a hot key to run.
#[tokio::test(start_paused = true)]
async fn poll_does_not_wait_for_a_hot_key() {
    let (stage, seen) = (Stage::set(), Notes::<Delivery>::new());
    stage.insert(run_of(HOT, EVENTS)).await;
    let outbox = slow(&stage, &seen, SECOND);
    stage.pass(SECOND).await;

    let asked = stage.now();
    outbox.poll().await.unwrap();

    assert!(stage.now() - asked < SECOND, "it took {:?}", stage.now() - asked);
}
