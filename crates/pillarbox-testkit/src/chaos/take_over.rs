//! How long partitions are without an owner, by the rows of their leases and the database's clock.

use std::collections::BTreeSet;
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

/// The share of one of two.
const HALF: usize = pillarbox::PARTITIONS / 2;

/// Microseconds of the database's clock.
type Moment = i64;

/// A partition that is owned.
#[derive(Clone, Debug)]
struct Lease {
    partition: u8,
    epoch: i64,
    until: Moment,
    /// The incarnation that owns it.
    owner: String,
}

/// O5: what a killed process owned is taken by another at most one heartbeat after its leases have ended, and not
/// before.
pub async fn killed_owner_is_taken_over_when_its_leases_end<C: Shell>(stage: &C) {
    let Pair { first, owner, second: _second } = Pair::start(stage).await;

    first.kill().await;
    let left = leases(stage).await;
    let mut beats = Beats::default();
    let taken = until_all(stage, &mut beats, |lease| lease.owner != owner).await;

    let passed = passed_on(&left, &owner, &taken);
    assert_eq!(passed.len(), HALF, "all that it owned changed hands");
    let pauses: Vec<Pause> = passed.iter().map(|(before, after)| Pause::new(before.until, after)).collect();
    assert!(pauses.iter().all(|pause| pause.length() >= 0), "nobody takes what another holds");
    assert_short("the end of their leases", &pauses, &beats);
}

/// O5, D8: all that a process gives back when it is stopped is taken by another at most one heartbeat later.
pub async fn given_back_partitions_are_taken_within_a_heartbeat<C: Shell>(stage: &C) {
    let Pair { first, owner, second: _second } = Pair::start(stage).await;
    let held = leases(stage).await;

    first.end().await;
    let ended_at = now(stage).await;
    let mut beats = Beats::default();
    let taken = until_all(stage, &mut beats, |lease| lease.owner != owner).await;

    let passed = passed_on(&held, &owner, &taken);
    assert_eq!(passed.len(), HALF, "all that it owned changed hands");
    let pauses: Vec<Pause> = passed.iter().map(|(_, after)| Pause::new(ended_at, after)).collect();
    assert_short("the end of their owner", &pauses, &beats);
}

/// O5: a lone instance with a name that is killed and started again has its partitions back at most one heartbeat later,
/// long before the leases of its former life end.
pub async fn lone_named_instance_takes_its_own_back_at_once<C: Shell>(stage: &C) {
    let first = ready(stage, Some("relay-1")).await;
    until_all(stage, &mut Beats::default(), |_| true).await;

    first.kill().await;
    let killed_at = now(stage).await;
    let left = leases(stage).await;
    let is_anew = |after: &Lease| {
        left.iter().any(|before| before.partition == after.partition && before.epoch < after.epoch)
    };
    let mut beats = Beats::default();
    let (_again, taken) = tokio::join!(ready(stage, Some("relay-1")), until_all(stage, &mut beats, is_anew));

    for (before, after) in pairs(&left, &taken) {
        assert!(taken_at(after) < before.until, "{after:?} was not waited for");
    }
    let pauses: Vec<Pause> = taken.iter().map(|after| Pause::new(killed_at, after)).collect();
    assert_short("the death of their owner", &pauses, &beats);
}

/// A partition that was without an owner, from when to when.
struct Pause {
    from: Moment,
    to: Moment,
}

impl Pause {
    fn new(from: Moment, after: &Lease) -> Self {
        Self { from, to: taken_at(after) }
    }

    fn length(&self) -> Moment {
        self.to - self.from
    }
}

/// When members said that they are alive, as far as it was seen.
#[derive(Default)]
struct Beats(BTreeSet<Moment>);

impl Beats {
    /// Notes the latest heartbeat of every member, but for those whose life was ended by a successor of their name.
    async fn look<C: Shell>(&mut self, stage: &C) {
        let rows =
            stage.ask(format!("SELECT {} FROM outbox_instance WHERE until >= seen_at", C::UNTIL)).await;
        let until = |row: &Vec<String>| row[0].parse::<Moment>().unwrap();
        self.0.extend(rows.iter().map(|row| until(row) - micros(STEADY_SILENCE)));
    }

    /// How many there were in a pause, the one with which it ended included.
    fn during(&self, pause: &Pause) -> usize {
        self.0.iter().filter(|&&beat| beat > pause.from && beat <= pause.to).count()
    }
}

/// Says how long partitions had no owner, and fails if a heartbeat passed them by.
#[track_caller]
fn assert_short(since: &str, pauses: &[Pause], beats: &Beats) {
    let lengths = || pauses.iter().map(Pause::length);
    let (shortest, longest) = (lengths().min().unwrap(), lengths().max().unwrap());
    eprintln!("{} partitions were free for {shortest} to {longest} µs after {since}", pauses.len());
    assert!(longest <= micros(STEADY_BEAT + STATEMENTS), "free for {longest} µs");
    let passed = pauses.iter().map(|pause| beats.during(pause)).max().unwrap();
    assert!(passed <= 1, "the {passed}th heartbeat took them, and not the first");
}

/// Two relays, each of which has its share.
struct Pair {
    first: Member,
    /// The incarnation of the first.
    owner: String,
    second: Member,
}

impl Pair {
    async fn start<C: Shell>(stage: &C) -> Self {
        let first = ready(stage, None).await;
        let owner = until_all(stage, &mut Beats::default(), |_| true).await.swap_remove(0).owner;
        let second = ready(stage, None).await;
        let is_shared = |leases: &[Lease]| leases.iter().filter(|lease| lease.owner == owner).count() == HALF;
        until(stage, &mut Beats::default(), is_shared).await;
        Self { first, owner, second }
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

/// Looks until all partitions are owned, and each as it should be; notes the heartbeats meanwhile.
async fn until_all<C: Shell>(stage: &C, beats: &mut Beats, is_right: impl Fn(&Lease) -> bool) -> Vec<Lease> {
    until(stage, beats, |leases| leases.iter().all(&is_right)).await
}

/// Looks until all partitions are owned, and all of them together as they should be.
async fn until<C: Shell>(stage: &C, beats: &mut Beats, are_right: impl Fn(&[Lease]) -> bool) -> Vec<Lease> {
    let looking = async {
        loop {
            beats.look(stage).await;
            let leases = leases(stage).await;
            if leases.len() == pillarbox::PARTITIONS && are_right(&leases) {
                return leases;
            }
            SystemClock.sleep(LOOK_EVERY).await;
        }
    };
    tokio::time::timeout(PATIENCE, looking).await.expect("all partitions are owned in the end")
}

/// The partitions that are owned, in their order.
async fn leases<C: Shell>(stage: &C) -> Vec<Lease> {
    let (until, owner) = (C::UNTIL, C::OWNER);
    let sql = format!(
        "SELECT event_partition, epoch, {until}, {owner} FROM outbox_partition WHERE {owner} IS NOT NULL ORDER BY 1"
    );
    let rows = stage.ask(sql).await;
    let lease = |row: &Vec<String>| Lease {
        partition: row[0].parse().unwrap(),
        epoch: row[1].parse().unwrap(),
        until: row[2].parse().unwrap(),
        owner: row[3].clone(),
    };
    rows.iter().map(lease).collect()
}

async fn now<C: Shell>(stage: &C) -> Moment {
    stage.ask(format!("SELECT {}", C::NOW)).await[0][0].parse().unwrap()
}

/// What `owner` had before and others have since under a later epoch, before and after.
fn passed_on(before: &[Lease], owner: &str, after: &[Lease]) -> Vec<(Lease, Lease)> {
    pairs(before, after)
        .filter(|(before, after)| before.owner == owner && after.epoch > before.epoch)
        .map(|(before, after)| (before.clone(), after.clone()))
        .collect()
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
