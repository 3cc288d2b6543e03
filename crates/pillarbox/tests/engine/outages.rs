//! The database goes away and comes back.

use std::sync::Arc;
use std::time::Duration;

use pillarbox::store::Status;
use pillarbox::{Delivery, Outbox};

use crate::faults::{Faults, FaultyStore};
use crate::stage::{HOUR, Notes, SECOND, Stage, placed, write};

/// No call by which events are taken and settled gets through any more, or every one does again.
fn cut(instances: [&Arc<Faults>; 2], calls: u32) {
    for faults in instances {
        faults.takes.next(calls);
        faults.renewals.next(calls);
        faults.settles.next(calls);
    }
}

/// Two instances on one table: one that delivers from memory, and one that only polls.
fn two_instances(stage: &Stage, seen: &Notes<Delivery>) -> [(Outbox<FaultyStore>, Arc<Faults>); 2] {
    let (owner, owners) = stage.faulty();
    let (idle, idles) = stage.faulty();
    let owner = owner.on("OrderPlaced", seen.listener()).poll_every(SECOND).start().unwrap();
    let idle = idle.on("OrderPlaced", seen.listener()).poll_every(SECOND).poller_only().start().unwrap();
    [(owner, owners), (idle, idles)]
}

/// S10, Q3: after an outage longer than a lease, who delivered records it before another takes the event.
#[tokio::test(start_paused = true)]
async fn owner_settles_before_others_take_what_expired() {
    for outage in [60 * SECOND, 61 * SECOND, 3_600 * SECOND + Duration::from_millis(730)] {
        let (stage, seen) = (Stage::set(), Notes::<Delivery>::new());
        let [(owner, owners), (idle, idles)] = two_instances(&stage, &seen);
        stage.pass(10 * SECOND).await;

        cut([&owners, &idles], u32::MAX);
        write(&owner, placed("order-1")).await;
        stage.pass(outage).await;
        cut([&owners, &idles], 0);
        stage.pass(HOUR).await;

        assert_eq!(seen.ids(), ["order-1"], "after {outage:?}");
        assert_eq!(stage.status("order-1").await, Status::Done);
        assert_eq!((owner.counts().done, idle.counts().cold_enqueued), (1, 0));
    }
}

/// P5, S10: what nobody delivered is taken a few seconds after the outage.
#[tokio::test(start_paused = true)]
async fn others_take_soon_what_nobody_settles() {
    let (stage, seen) = (Stage::set(), Notes::<Delivery>::new());
    let [(_owner, owners), (_idle, idles)] = two_instances(&stage, &seen);
    stage.pass(10 * SECOND).await;
    cut([&owners, &idles], u32::MAX);
    stage.pending(&["order-1"]).await;
    stage.pass(60 * SECOND).await;

    cut([&owners, &idles], 0);
    stage.pass(4 * SECOND).await;

    assert_eq!(seen.ids(), ["order-1"]);
}

/// P5: a call that fails once while the poller is at work costs a moment only.
#[tokio::test(start_paused = true)]
async fn short_outage_costs_a_moment() {
    let (stage, seen) = (Stage::set(), Notes::<Delivery>::new());
    let [(_owner, owners), (_idle, idles)] = two_instances(&stage, &seen);
    stage.pass(10 * SECOND).await;
    stage.pending(&["order-1"]).await;

    cut([&owners, &idles], 1);
    stage.pass(SECOND + SECOND / 2).await;

    assert_eq!(seen.ids(), ["order-1"]);
}

/// P1: a cycle that is asked for after an outage takes when others have had time to settle, and not before.
#[tokio::test(start_paused = true)]
async fn poll_waits_until_others_have_settled() {
    let (stage, seen) = (Stage::set(), Notes::<Delivery>::new());
    let [(owner, owners), (_idle, idles)] = two_instances(&stage, &seen);
    stage.pass(10 * SECOND).await;
    cut([&owners, &idles], u32::MAX);
    stage.pending(&["order-1"]).await;
    stage.pass(60 * SECOND).await;
    cut([&owners, &idles], 0);
    let begun = stage.now();

    owner.poll().await.unwrap();

    assert!((3 * SECOND..4 * SECOND).contains(&(stage.now() - begun)));
    stage.quiet().await;
    assert_eq!(seen.ids(), ["order-1"]);
}
