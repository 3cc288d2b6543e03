//! Instances of both modes are members of one table.

use std::collections::BTreeSet;

use pillarbox::store::{Administration, EventStore, Instance, Mode, Owner, Ownership, Registration};
use pillarbox::{Delivery, Leased, MemoryStore, Outbox, OutboxBuilder, PollerHandler, Stopped};
use pillarbox_testkit::acceptance::Desk;
use tracing::Level;

use crate::logs::Logs;
use crate::stage::{HOUR, MILLISECOND, Notes, SECOND, Stage, placed, write};

/// An instance that nobody has started.
fn instance(name: &str, incarnation: u64, mode: Mode) -> Instance {
    Instance { owner: Owner::new(name, incarnation), is_named: true, mode, live_for: 30 * SECOND }
}

/// An outbox of this mode under a name.
fn named(stage: &Stage, name: &str, mode: Mode, seen: &Notes<Delivery>) -> OutboxBuilder<MemoryStore> {
    stage.outbox().name(name).mode(mode).on("OrderPlaced", seen.listener())
}

async fn alive(stage: &Stage) -> Vec<Registration> {
    stage.store.census().await.unwrap().alive().cloned().collect()
}

fn refusal(stopped: Stopped) -> String {
    let Stopped::Refused(reason) = stopped else { panic!("{stopped:?}") };
    reason
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

/// O3, O4: whoever delivers or polls is a member and stays one, and who only writes is none; who is closed is one no more.
#[tokio::test(start_paused = true)]
async fn all_who_take_are_members() {
    let (stage, seen) = (Stage::set(), Notes::<Delivery>::new());
    let full = named(&stage, "full", Mode::Claims, &seen).start().unwrap();
    let poller = named(&stage, "poller", Mode::Claims, &seen).poller_only().start().unwrap();
    let own = stage.outbox().name("own").poller_handler(Idle).start().unwrap();
    let writer = stage.outbox().name("writer").writer_only().start().unwrap();

    stage.pass(HOUR).await;

    let members = alive(&stage).await;
    let names: Vec<&str> = members.iter().map(|member| member.owner.name()).collect();
    assert_eq!(names, ["full", "own", "poller"]);
    for member in &members {
        assert_eq!(member.mode, Mode::Claims);
        assert!(member.joined_ago >= HOUR - SECOND && member.silent_for <= 5 * SECOND, "{member:?}");
    }
    for outbox in [full, poller, own, writer] {
        outbox.close().await;
    }
    assert_eq!(stage.store.census().await.unwrap().instances, []);
}

/// O3: of two modes the one that is there first stays: who comes with the other is refused with the names of those who are
/// alive, disturbs nobody, and may come when they are closed.
#[tokio::test(start_paused = true)]
async fn other_mode_is_refused_until_the_others_are_closed() {
    for (first, second) in [(Mode::Claims, Mode::Ownership), (Mode::Ownership, Mode::Claims)] {
        let (stage, seen) = (Stage::set(), Notes::<Delivery>::new());
        let there = named(&stage, "relay-7", first, &seen).start().unwrap();
        stage.pass(SECOND).await;

        let late = named(&stage, "relay-8", second, &seen).start().unwrap();
        let reason = refusal(late.run(std::future::pending()).await.unwrap_err());
        assert!(reason.contains("`relay-7`") && reason.contains(&format!("`{first}`")), "{reason}");
        stage.pending(&["order-1"]).await;
        there.poll().await.unwrap();
        stage.pass(SECOND).await;
        assert_eq!((seen.ids(), there.counts().done), (vec!["order-1".to_owned()], 1));

        there.close().await;
        let next = named(&stage, "relay-9", second, &seen).start().unwrap();
        stage.pending(&["order-2"]).await;
        stage.pass(10 * SECOND).await;

        assert_eq!((seen.len(), next.counts().done), (2, 1), "after {first}");
    }
}

/// O3: one that was killed counts until its silence has passed, and no longer.
#[tokio::test(start_paused = true)]
async fn killed_instance_counts_until_its_silence_has_passed() {
    for (dead, mode) in [(Mode::Claims, Mode::Ownership), (Mode::Ownership, Mode::Claims)] {
        let (stage, seen) = (Stage::set(), Notes::<Delivery>::new());
        stage.store.join(&instance("killed", 1, dead)).await.unwrap();
        stage.pass(29 * SECOND).await;
        let early = named(&stage, "relay", mode, &seen).start().unwrap();
        assert!(refusal(early.stopped().await).contains("`killed`"));

        stage.pass(2 * SECOND).await;
        let late = named(&stage, "relay", mode, &seen).start().unwrap();
        stage.pending(&["order-1"]).await;
        stage.pass(10 * SECOND).await;

        assert_eq!((seen.len(), late.counts().done), (1, 1), "after {dead}");
    }
}

/// O3: an instance that was silent while the mode changed stops with the reason when it is back.
#[tokio::test(start_paused = true)]
async fn instance_that_slept_through_a_change_of_the_mode_stops() {
    let (stage, seen) = (Stage::set(), Notes::<Delivery>::new());
    let (builder, faults) = stage.faulty();
    let sleeping = builder.name("sleeping").on("OrderPlaced", seen.listener()).start().unwrap();
    stage.pass(SECOND).await;
    faults.members.next(u32::MAX);
    stage.pass(40 * SECOND).await;

    let owner = named(&stage, "relay", Mode::Ownership, &seen).start().unwrap();
    stage.pass(SECOND).await;
    faults.members.next(0);
    let reason = refusal(sleeping.stopped().await);

    assert!(reason.contains("`ownership`"), "{reason}");
    let names: Vec<String> = alive(&stage).await.iter().map(|m| m.owner.name().to_owned()).collect();
    assert_eq!(names, ["relay"]);
    stage.pending(&["order-1"]).await;
    stage.pass(10 * SECOND).await;
    assert_eq!((owner.counts().done, sleeping.counts().done), (1, 0));
}

/// O4: rows that are claimed wait for no heartbeat: while joining fails, and while heartbeats do, events are delivered from
/// memory and from the table, and the log says what fails.
#[tokio::test(start_paused = true)]
async fn failing_heartbeats_keep_no_claimed_event_from_delivery() {
    for joins in [false, true] {
        let (stage, seen, logs) = (Stage::set(), Notes::<Delivery>::new(), Logs::collect());
        let (builder, faults) = stage.faulty();
        faults.members.next(if joins { 0 } else { u32::MAX });
        let outbox = builder.name("relay").on("OrderPlaced", seen.listener()).start().unwrap();
        stage.pass(MILLISECOND).await;
        faults.members.next(u32::MAX);

        for round in 1..=60 {
            write(&outbox, placed(&format!("hot-{round}"))).await;
            stage.pending(&[&format!("cold-{round}")]).await;
            stage.pass(2 * SECOND).await;
        }
        stage.pass(10 * SECOND).await;

        assert_eq!((seen.len(), seen.distinct().len(), outbox.counts().done), (120, 120, 120));
        let errors: BTreeSet<String> = logs.at(Level::ERROR).into_iter().collect();
        let said = if joins { "the heartbeat failed" } else { "this instance could not join" };
        assert!(errors.iter().all(|line| line.starts_with(said)) && !errors.is_empty(), "{errors:?}");
        faults.members.next(0);
        stage.pass(SECOND).await;
        assert_eq!(alive(&stage).await.len(), 1, "it tries again");
    }
}

/// S5, S10: who has not joined yet does not take a dead predecessor of its name, which is still listed, for a successor.
#[tokio::test(start_paused = true)]
async fn predecessor_is_no_successor() {
    let (stage, seen) = (Stage::set(), Notes::<Delivery>::new());
    let before = Instance { live_for: HOUR, ..instance("relay", 1, Mode::Claims) };
    stage.store.join(&before).await.unwrap();
    let (builder, faults) = stage.faulty();
    faults.members.next(u32::MAX);
    let outbox = builder.name("relay").on("OrderPlaced", seen.listener()).start().unwrap();

    for order in 1..=5 {
        write(&outbox, placed(&format!("order-{order}"))).await;
        stage.pass(2 * SECOND).await;
    }
    faults.members.next(0);
    stage.pass(10 * SECOND).await;

    assert_eq!(outbox.counts().done, 5);
    assert!(!stage.store.is_current(&before.owner).await.unwrap(), "it has joined");
    write(&outbox, placed("order-6")).await;
    stage.pass(SECOND).await;
    assert_eq!(outbox.counts().done, 6);
}

/// O3: an outbox that is dropped counts until what it has begun is over.
#[tokio::test(start_paused = true)]
async fn dropped_outbox_is_a_member_until_nothing_runs() {
    let (stage, (listener, mut desk)) = (Stage::set(), Desk::open());
    stage.pending(&["order-1"]).await;
    let outbox = stage.outbox().on("OrderPlaced", listener).start().unwrap();
    let _running = desk.next().await;

    drop(outbox);
    stage.pass(4 * SECOND).await;
    assert_eq!(alive(&stage).await.len(), 1);
    stage.pass(2 * SECOND).await;

    assert_eq!(alive(&stage).await, []);
}

/// O4: where rows are claimed the options of heartbeats count too.
#[tokio::test(start_paused = true)]
async fn heartbeat_is_as_often_as_was_said() {
    let (stage, seen) = (Stage::set(), Notes::<Delivery>::new());
    let outbox = named(&stage, "relay", Mode::Claims, &seen);
    let outbox = outbox.heartbeat_every(60 * SECOND).silent_after(120 * SECOND).start().unwrap();

    stage.pass(59 * SECOND).await;
    let silence = alive(&stage).await[0].silent_for;
    stage.pass(2 * SECOND).await;

    assert!(silence >= 58 * SECOND, "{silence:?}");
    assert!(alive(&stage).await[0].silent_for < 2 * SECOND);
    drop::<Outbox<MemoryStore>>(outbox);
}
