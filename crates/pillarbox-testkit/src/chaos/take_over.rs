//! How long partitions are without an owner, by the rows of their leases and the database's clock.

use std::time::Duration;

use pillarbox::{Clock, SystemClock};

use super::process::{self, NAME, Role, STEADY_BEAT, STEADY_SILENCE};
use super::shell::Shell;
use crate::cluster::Member;

/// Between two looks at the leases: far less than a heartbeat, after which they are renewed.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// What the statements of a take-over may take on a busy machine, beside the heartbeat that it waits for.
const STATEMENTS: Duration = Duration::from_millis(1_500);

/// Partitions that nobody takes for so long are forgotten.
const PATIENCE: Duration = Duration::from_secs(60);

/// Microseconds of the database's clock.
type Moment = i64;

/// A partition that is owned.
#[derive(Clone, Copy, Debug)]
struct Lease {
    partition: u8,
    epoch: i64,
    until: Moment,
}

/// O5: what a killed process owned is taken by another at most one heartbeat after its leases have ended, and not
/// before.
pub async fn killed_owner_is_taken_over_when_its_leases_end<C: Shell>(stage: &C) {
    let (first, _second) = (ready(stage, None).await, ready(stage, None).await);
    let shared = until_all(stage, |_| true).await;

    first.kill().await;
    let left = leases(stage).await;
    let taken = until_all(stage, |lease| !is_among(&left, lease)).await;

    let mut pauses = Vec::new();
    for (before, after) in pairs(&left, &taken).filter(|(before, after)| after.epoch > before.epoch) {
        pauses.push(taken_at(after) - before.until);
    }
    assert!(!pauses.is_empty(), "something of {} partitions changed hands", shared.len());
    let (shortest, longest) = (pauses.iter().min().unwrap(), pauses.iter().max().unwrap());
    eprintln!("{} partitions were free for {shortest} to {longest} µs after their leases", pauses.len());
    assert!(*shortest >= 0, "nobody takes what another holds");
    assert!(*longest <= micros(STEADY_BEAT + STATEMENTS), "free for {longest} µs");
}

/// O5, D8: what a process gives back when it is stopped is taken by another at most one heartbeat later.
pub async fn given_back_partitions_are_taken_within_a_heartbeat<C: Shell>(stage: &C) {
    let (first, _second) = (ready(stage, None).await, ready(stage, None).await);
    let shared = until_all(stage, |_| true).await;

    first.end().await;
    let ended_at = now(stage).await;
    let taken = until_all(stage, |_| true).await;

    let changed: Vec<Moment> = pairs(&shared, &taken)
        .filter(|(before, after)| after.epoch > before.epoch)
        .map(|(_, after)| taken_at(after) - ended_at)
        .collect();
    let longest = *changed.iter().max().expect("something changed hands");
    eprintln!("{} partitions were taken at most {longest} µs after the end of their owner", changed.len());
    assert!(longest <= micros(STEADY_BEAT + STATEMENTS), "free for {longest} µs");
}

/// O5: a lone instance with a name that is killed and started again has its partitions back when it is ready, long
/// before the leases of its former life end.
pub async fn lone_named_instance_takes_its_own_back_at_once<C: Shell>(stage: &C) {
    let first = ready(stage, Some("relay-1")).await;
    until_all(stage, |_| true).await;

    first.kill().await;
    let left = leases(stage).await;
    let _again = ready(stage, Some("relay-1")).await;
    let taken = leases(stage).await;

    assert_eq!(taken.len(), left.len(), "all of them are owned again");
    for (before, after) in pairs(&left, &taken) {
        assert!(after.epoch > before.epoch, "{after:?} is owned anew");
        assert!(taken_at(after) < before.until, "{after:?} was not waited for");
    }
}

/// A relay that has all of its share that was free.
async fn ready<C: Shell>(stage: &C, name: Option<&str>) -> Member {
    let mut program = process::program(&stage.address(), Role::Steady);
    if let Some(name) = name {
        program.env(NAME, name);
    }
    let mut relay = Member::launch(&mut program);
    relay.ready().await;
    relay
}

/// Looks until all partitions are owned, and as they should be.
async fn until_all<C: Shell>(stage: &C, is_right: impl Fn(&Lease) -> bool) -> Vec<Lease> {
    let looking = async {
        loop {
            let leases = leases(stage).await;
            if leases.len() == pillarbox::PARTITIONS && leases.iter().all(&is_right) {
                return leases;
            }
            SystemClock.sleep(LOOK_EVERY).await;
        }
    };
    tokio::time::timeout(PATIENCE, looking).await.expect("all partitions are owned in the end")
}

/// The partitions that are owned, in their order.
async fn leases<C: Shell>(stage: &C) -> Vec<Lease> {
    let until = C::UNTIL;
    let sql = format!(
        "SELECT event_partition, epoch, {until} FROM outbox_partition WHERE {until} IS NOT NULL ORDER BY 1"
    );
    let rows = stage.ask(sql).await;
    let lease = |row: &Vec<String>| Lease {
        partition: row[0].parse().unwrap(),
        epoch: row[1].parse().unwrap(),
        until: row[2].parse().unwrap(),
    };
    rows.iter().map(lease).collect()
}

async fn now<C: Shell>(stage: &C) -> Moment {
    stage.ask(format!("SELECT {}", C::NOW)).await[0][0].parse().unwrap()
}

/// Whether a lease is one of those that were left, neither renewed nor taken since.
fn is_among(left: &[Lease], lease: &Lease) -> bool {
    left.iter().any(|left| left.partition == lease.partition && left.until == lease.until)
}

/// The same partitions before and after.
fn pairs<'l>(before: &'l [Lease], after: &'l [Lease]) -> impl Iterator<Item = (&'l Lease, &'l Lease)> {
    before
        .iter()
        .filter_map(|before| Some((before, after.iter().find(|after| after.partition == before.partition)?)))
}

/// When a lease was taken, if it has not been renewed since.
fn taken_at(lease: &Lease) -> Moment {
    lease.until - micros(STEADY_SILENCE)
}

fn micros(duration: Duration) -> Moment {
    Moment::try_from(duration.as_micros()).unwrap()
}
