//! The part of `pillarbox status` about instances, partitions and keys.

use std::collections::BTreeMap;
use std::fmt::{self, Write};

use pillarbox::store::{Census, Mode, Owner, Registration, Tenancy};
use serde::Serialize;

use crate::figure;

/// How many of the partitions in which most waits are named.
const FULLEST: usize = 3;

/// What is printed as JSON.
#[derive(Serialize)]
pub(super) struct Shown {
    /// `claims` or `ownership`.
    mode: String,
    instances: Vec<Instance>,
    /// All of them; none with `claims`.
    partitions: Vec<Partition>,
    unplaced: u64,
    blocked_keys: u64,
    parked_keys: u64,
}

#[derive(Serialize)]
struct Instance {
    name: String,
    /// Name and incarnation.
    owner: String,
    mode: String,
    joined_ago_seconds: f64,
    silent_for_seconds: f64,
    is_alive: bool,
    partitions: usize,
    pending: u64,
}

#[derive(Serialize)]
struct Partition {
    partition: u8,
    /// `null` if it was released or never owned.
    owner: Option<String>,
    is_held: bool,
    epoch: i64,
    fresh: u64,
    aside: u64,
    /// `null` if nothing is due.
    oldest_due_seconds: Option<f64>,
}

impl Shown {
    pub(super) fn of(census: &Census) -> Self {
        Self {
            mode: census.mode.to_string(),
            instances: census.instances.iter().map(|instance| Instance::of(census, instance)).collect(),
            partitions: census.partitions.iter().map(Partition::of).collect(),
            unplaced: census.unplaced,
            blocked_keys: census.blocked_keys,
            parked_keys: census.parked_keys,
        }
    }
}

impl Instance {
    fn of(census: &Census, instance: &Registration) -> Self {
        let share = Share::of(census, &instance.owner);
        Self {
            name: instance.owner.name().to_owned(),
            owner: instance.owner.to_string(),
            mode: instance.mode.to_string(),
            joined_ago_seconds: instance.joined_ago.as_secs_f64(),
            silent_for_seconds: instance.silent_for.as_secs_f64(),
            is_alive: instance.is_alive,
            partitions: share.partitions,
            pending: share.pending,
        }
    }
}

impl Partition {
    fn of(tenancy: &Tenancy) -> Self {
        Self {
            partition: tenancy.partition,
            owner: tenancy.owner.as_ref().map(Owner::to_string),
            is_held: tenancy.is_held,
            epoch: tenancy.epoch.0,
            fresh: tenancy.fresh,
            aside: tenancy.aside,
            oldest_due_seconds: tenancy.oldest_due_for.map(|due_for| due_for.as_secs_f64()),
        }
    }
}

/// What an instance owns.
struct Share {
    partitions: usize,
    pending: u64,
}

impl Share {
    fn of(census: &Census, owner: &Owner) -> Self {
        let pending = census.held_by(owner).map(Tenancy::pending).sum();
        Self { partitions: census.held_by(owner).count(), pending }
    }
}

/// What is printed for people.
pub(super) fn table(census: &Census) -> Result<String, fmt::Error> {
    let mut table = String::new();
    let how = match census.mode {
        Mode::Claims => "events are taken row by row",
        Mode::Ownership => "events are read by partition, each by the instance that owns it",
    };
    writeln!(table, "mode {}: {how}", census.mode)?;
    let instances = lines(census);
    if !instances.is_empty() {
        write_instances(&mut table, census.mode, &instances)?;
    } else {
        writeln!(table, "\nno instances: nobody delivers")?;
    }
    if census.mode == Mode::Ownership {
        write_counts(&mut table, census)?;
    }
    Ok(table)
}

/// One instance as it is printed: its name, since when it is here, when it was heard of, and what it owns.
struct Line {
    name: String,
    joined: String,
    seen: String,
    share: Share,
}

/// Those who are listed, and behind them those who have left and still own something.
fn lines(census: &Census) -> Vec<Line> {
    let listed = census.instances.iter().map(|instance| Line {
        name: figure::plain(instance.owner.name()),
        joined: format!("{} ago", figure::time(instance.joined_ago)),
        seen: format!(
            "{} ago{}",
            figure::time(instance.silent_for),
            if instance.is_alive { "" } else { ", silent" }
        ),
        share: Share::of(census, &instance.owner),
    });
    let is_listed = |owner: &Owner| census.instances.iter().any(|instance| instance.owner == *owner);
    let owners = census.partitions.iter().filter(|tenancy| tenancy.is_held);
    let owners = owners.filter_map(|tenancy| tenancy.owner.as_ref()).filter(|owner| !is_listed(owner));
    let gone: BTreeMap<&Owner, Share> = owners.map(|owner| (owner, Share::of(census, owner))).collect();
    let gone = gone.into_iter().map(|(owner, share)| Line {
        name: figure::plain(owner.name()),
        joined: "–".to_owned(),
        seen: "gone".to_owned(),
        share,
    });
    listed.chain(gone).collect()
}

fn write_instances(table: &mut String, mode: Mode, lines: &[Line]) -> fmt::Result {
    let width = |title: &str, column: fn(&Line) -> &str| {
        let widths = lines.iter().map(|line| column(line).chars().count());
        widths.chain([title.len()]).max().unwrap_or(0)
    };
    let name = width("INSTANCE", |line| &line.name);
    let joined = width("JOINED", |line| &line.joined);
    let seen = width("SEEN", |line| &line.seen);
    let is_owned = mode == Mode::Ownership;
    let owned = if is_owned { "  PARTITIONS     PENDING" } else { "" };
    let titles = format!("{:<name$}  {:<joined$}  {:<seen$}{owned}", "INSTANCE", "JOINED", "SEEN");
    writeln!(table, "\n{}", titles.trim_end())?;
    for line in lines {
        let Share { partitions, pending } = line.share;
        let owned = if is_owned {
            format!("  {partitions:>10}  {:>10}", figure::count(pending))
        } else {
            String::new()
        };
        let line = format!("{:<name$}  {:<joined$}  {:<seen$}{owned}", line.name, line.joined, line.seen);
        writeln!(table, "{}", line.trim_end())?;
    }
    Ok(())
}

fn write_counts(table: &mut String, census: &Census) -> fmt::Result {
    let free = census.free().count() as u64;
    let mut counts = vec![
        ("no owner", free, "partitions that nobody reads".to_owned()),
        ("pending", census.pending(), fullest(census)),
    ];
    if census.unplaced > 0 {
        counts.push((
            "unplaced",
            census.unplaced,
            "have no partition until an instance reads them".to_owned(),
        ));
    }
    let parked = "those of them that wait for you; see `pillarbox keys list --parked`";
    counts.push(("blocked", census.blocked_keys, "keys that wait; see `pillarbox keys list`".to_owned()));
    counts.push(("parked", census.parked_keys, parked.to_owned()));
    writeln!(table)?;
    for (label, value, remark) in counts {
        super::write_line(table, label, &figure::count(value), &remark)?;
    }
    Ok(())
}

/// The partitions in which most waits.
fn fullest(census: &Census) -> String {
    let mut waiting: Vec<&Tenancy> =
        census.partitions.iter().filter(|tenancy| tenancy.pending() > 0).collect();
    waiting.sort_by_key(|tenancy| (std::cmp::Reverse(tenancy.pending()), tenancy.partition));
    let named = waiting.iter().take(FULLEST);
    let named = named.map(|tenancy| format!("{} ({})", tenancy.partition, figure::count(tenancy.pending())));
    match waiting.len() {
        0 => "in no partition".to_owned(),
        1 => format!("in partition {}", named.collect::<String>()),
        many => format!("in {many} partitions, most in {}", named.collect::<Vec<_>>().join(", ")),
    }
}
