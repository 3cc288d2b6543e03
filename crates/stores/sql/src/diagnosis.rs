//! What is made of things that every store finds out about its database.

use std::error::Error;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use pillarbox::store::{Census, Check, Mode, Stats, StoreError};

/// No statement of an examination may take longer.
pub const PATIENCE: Duration = Duration::from_secs(3);

/// Clocks that are further apart than this, and than can be measured, are worth a warning.
const APART: Duration = Duration::from_secs(1);

/// An event that has been due for this long is not delivered as it should be.
const OVERDUE: Duration = Duration::from_secs(300);

/// As many done events are not kept on purpose, probably.
const MANY_DONE: u64 = 1_000_000;

/// Who has written and not ended for this long keeps others waiting.
const LONG_WRITE: Duration = Duration::from_secs(5);

/// Who reads for this long keeps old versions of rows alive.
const LONG_READ: Duration = Duration::from_secs(60);

/// An error with its causes; drivers repeat a cause in their own text, it is told once.
pub fn told(error: &StoreError) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.ends_with(&cause_text) {
            text.extend([": ", &cause_text]);
        }
        source = cause.source();
    }
    text
}

/// A check that could not be made; what is missing stands in the error.
pub fn failed(name: &'static str, error: &StoreError) -> Check {
    Check::unknown(name, format!("it could not be looked at: {}", told(error)))
}

/// Whether the database can be used at all, by what the first look at it answered.
pub fn reached(database: &str, looked: &Result<String, StoreError>) -> Check {
    match looked {
        Ok(server) => Check::ok("database", format!("`{database}` answers, {server}")),
        Err(error) => Check::problem("database", told(error)),
    }
}

/// The version of the tables.
pub fn schema(judged: &Result<u32, StoreError>) -> Check {
    let migrate = "run `pillarbox migrate`";
    match judged {
        Ok(version) => Check::ok("schema", format!("version {version}, which this program needs")),
        Err(StoreError::NotMigrated) => {
            Check::problem("schema", "there is no outbox in this database").remedy(migrate)
        }
        Err(StoreError::OlderSchema { found, needed }) => {
            Check::problem("schema", format!("version {found}, and this program needs {needed}"))
                .remedy(migrate)
        }
        Err(StoreError::NewerSchema { found, known }) => {
            Check::problem("schema", format!("version {found}, and this program knows {known} at most"))
                .remedy("use a newer build of this program")
        }
        Err(error) => failed("schema", error),
    }
}

/// Microseconds since 1970 by the clock of this machine.
pub fn machine_micros() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}

/// How far the database's clock is from that of this machine, which was read `before` the question was sent and `after`
/// its answer came; all in microseconds since 1970.
pub fn clock(before: i64, database: i64, after: i64) -> Check {
    let either_way = after.saturating_sub(before).max(0) / 2;
    let ahead = database.saturating_sub(before.saturating_add(either_way));
    let (apart, margin) = (ahead.unsigned_abs(), either_way.unsigned_abs());
    let direction = if ahead < 0 { "behind" } else { "ahead of" };
    let found = format!(
        "the database's clock is {} {direction} this machine's, give or take {}",
        time(Duration::from_micros(apart)),
        time(Duration::from_micros(margin))
    );
    if Duration::from_micros(apart) <= APART + Duration::from_micros(margin) {
        return Check::ok("clock", found);
    }
    Check::warning("clock", found).remedy(
        "synchronise both (NTP): leases are measured by the database alone and do not suffer, but `occurred_at` comes \
         from the machine that writes",
    )
}

/// What waits, what was given up and what is kept; who delivers, and what waits for an operator.
pub fn operation(stats: &Result<Stats, StoreError>, census: &Result<Census, StoreError>) -> Vec<Check> {
    let mut checks = Vec::new();
    match census {
        Ok(census) => checks.extend([
            Check::ok("mode", format!("`{}`", census.mode)),
            instances(census, stats.as_ref().ok()),
        ]),
        Err(error) => checks.extend(["mode", "instances"].map(|name| failed(name, error))),
    }
    match stats {
        Ok(stats) => checks.extend([backlog(stats), dead(stats), done(stats)]),
        Err(error) => checks.extend(["backlog", "dead", "done"].map(|name| failed(name, error))),
    }
    if let Ok(census) = census
        && census.mode == Mode::Ownership
    {
        checks.push(parked(census));
    }
    checks
}

fn instances(census: &Census, stats: Option<&Stats>) -> Check {
    let alive = census.alive().count();
    let silent = census.instances.len() - alive;
    let found = match (alive, silent) {
        (alive, 0) => format!("{alive} alive"),
        (alive, silent) => format!("{alive} alive, {silent} silent"),
    };
    let pending = stats.map_or(census.pending(), Stats::pending);
    if alive == 0 && pending > 0 {
        return Check::warning("instances", format!("{found}, and {pending} events wait: nobody delivers"))
            .remedy("start a relay, or the service that delivers");
    }
    let free = census.free().count();
    if alive > 0 && free > 0 {
        return Check::warning("instances", format!("{found}, and {free} partitions have no owner"))
            .remedy("look again in half a minute; if it stays so, read the log of those who are alive");
    }
    Check::ok("instances", found)
}

fn backlog(stats: &Stats) -> Check {
    let pending = stats.pending();
    match stats.oldest_due_for {
        None => Check::ok("backlog", format!("{pending} events wait, none is due")),
        Some(due_for) => {
            let found = format!("{pending} events wait, the oldest has been due for {}", time(due_for));
            if due_for < OVERDUE {
                return Check::ok("backlog", found);
            }
            Check::warning("backlog", found).remedy(
                "see `pillarbox status` for who delivers, and the relay's `/status` for sinks that are down",
            )
        }
    }
}

fn dead(stats: &Stats) -> Check {
    match stats.dead {
        0 => Check::ok("dead", "no event was given up"),
        dead => Check::warning("dead", format!("{dead} events were given up"))
            .remedy("see `pillarbox dead list`, then `pillarbox dead replay` or `discard`"),
    }
}

fn done(stats: &Stats) -> Check {
    let found = format!("about {} done events are kept", stats.done_estimate);
    if stats.done_estimate < MANY_DONE {
        return Check::ok("done", found);
    }
    Check::warning("done", found)
        .remedy("set `keep_done_for`, or run `pillarbox purge --older-than 30d` now and then")
}

fn parked(census: &Census) -> Check {
    match census.parked_keys {
        0 => Check::ok("parked", "no key is parked"),
        parked => Check::warning("parked", format!("{parked} keys are parked, and wait for you"))
            .remedy("see `pillarbox keys list --parked`"),
    }
}

/// The indexes that a mode needs, against those that are there; `remedy` says how to make one.
pub fn indexes(needed: &[String], found: &[String], remedy: impl FnOnce(&[&String]) -> String) -> Check {
    let missing: Vec<&String> = needed.iter().filter(|name| !found.contains(name)).collect();
    if missing.is_empty() {
        return Check::ok("indexes", format!("all {} that the mode needs are there", needed.len()));
    }
    let names = missing.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    let remedy = remedy(&missing);
    Check::problem(
        "indexes",
        format!("{names} is missing: events are found by reading the table, or not at all"),
    )
    .remedy(remedy)
}

/// A transaction that is open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenTransaction {
    /// Who it is: session, user, program.
    pub who: String,
    /// What it is doing, in the server's word: `idle in transaction`.
    pub state: String,
    /// How long it has been open.
    pub age: Duration,
    /// Whether it has written to the outbox (or, where that is not told, anything) and not ended.
    pub has_written: bool,
}

/// Whether a transaction has been open for too long: one that has written, or one that only keeps what it sees. `holds`
/// says what a writer keeps from happening.
pub fn transactions(open: &[OpenTransaction], holds: &str) -> Check {
    let long = |transaction: &&OpenTransaction| {
        transaction.age >= if transaction.has_written { LONG_WRITE } else { LONG_READ }
    };
    let oldest = open.iter().map(|transaction| transaction.age).max();
    let mut long: Vec<&OpenTransaction> = open.iter().filter(long).collect();
    long.sort_by_key(|transaction| std::cmp::Reverse((transaction.has_written, transaction.age)));
    let Some(first) = long.first() else {
        let found = match oldest {
            None => "no other transaction is open".to_owned(),
            Some(age) => format!("{} open, the oldest for {}", open.len(), time(age)),
        };
        return Check::ok("transactions", found);
    };
    let told = long.iter().map(|transaction| {
        let OpenTransaction { who, state, age, has_written } = transaction;
        let what = if *has_written { format!(": {holds}") } else { String::new() };
        format!("{who} has been open for {} ({state}){what}", time(*age))
    });
    let remedy = if first.has_written {
        "commit or end it; keep transactions that write events short"
    } else {
        "end it if nobody needs it: it keeps old versions of rows alive, over which others have to step"
    };
    Check::warning("transactions", told.collect::<Vec<_>>().join("; ")).remedy(remedy)
}

/// A time in the unit that fits: `2.1 ms`, `4.2 s`, `3 min 20 s`, `2 h 5 min`.
pub fn time(time: Duration) -> String {
    // To the nearest one: what was measured is never exact.
    let seconds = time.saturating_add(Duration::from_millis(500)).as_secs();
    match time.as_micros() {
        0..1_000_000 => format!("{:.1} ms", time.as_secs_f64() * 1e3),
        1_000_000..60_000_000 => format!("{:.1} s", time.as_secs_f64()),
        _ if seconds < 3_600 => format!("{} min {} s", seconds / 60, seconds % 60),
        _ => format!("{} h {} min", seconds / 3_600, seconds / 60 % 60),
    }
}

/// A size in the unit that fits: `512 bytes`, `1.5 MiB`.
pub fn size(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if bytes < 1_024 {
        return format!("{bytes} bytes");
    }
    let mut size = bytes as f64 / 1_024.0;
    let mut unit = 0;
    while size >= 1_024.0 && unit + 1 < UNITS.len() {
        size /= 1_024.0;
        unit += 1;
    }
    format!("{size:.1} {}", UNITS[unit])
}

#[cfg(test)]
mod tests;
