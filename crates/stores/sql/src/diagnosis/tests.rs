use pillarbox::store::{Health, Owner, Registration};

use super::*;

const SECOND: i64 = 1_000_000;

/// The difference counts from the middle of the round trip, and a slow round trip excuses as much as it takes.
#[test]
fn clocks_are_compared_within_what_can_be_measured() {
    let now = 1_700_000_000 * SECOND;

    for (database, after, health) in [
        (now, now + 2_000, Health::Ok),
        (now + SECOND, now + 2_000, Health::Ok),
        (now + 2 * SECOND, now + 2_000, Health::Warning),
        (now - 2 * SECOND, now + 2_000, Health::Warning),
        (now + 4 * SECOND, now + 4 * SECOND, Health::Ok),
        (now, now - 5 * SECOND, Health::Ok),
    ] {
        let check = clock(now, database, after);
        assert_eq!(check.health, health, "{check}");
    }
    let behind = clock(now, now - 90 * SECOND + 2_500, now + 2_000);
    assert!(behind.found.contains("1 min 30 s behind this machine's, give or take 1.0 ms"), "{behind}");
    assert!(behind.remedy.as_ref().unwrap().contains("`occurred_at`"), "{behind}");
}

fn quiet() -> Stats {
    Stats { new: 3, retry: 0, dead: 0, done_estimate: 17, oldest_due_for: Some(Duration::from_secs(2)) }
}

fn alive() -> Census {
    let instance = Registration {
        owner: Owner::new("relay-1", 1),
        mode: Mode::Claims,
        joined_ago: Duration::from_secs(60),
        silent_for: Duration::from_secs(1),
        is_alive: true,
    };
    Census { instances: vec![instance], ..Census::default() }
}

fn bad(stats: Stats, census: Census) -> Vec<(&'static str, String)> {
    let checks = operation(&Ok(stats), &Ok(census)).into_iter();
    checks.filter(|check| check.health != Health::Ok).map(|check| (check.name, check.to_string())).collect()
}

#[test]
fn outbox_that_works_gives_no_cause_for_complaint() {
    assert!(bad(quiet(), alive()).is_empty());
}

#[test]
fn each_trouble_of_an_outbox_is_named() {
    let silent = |census: Census| Census {
        instances: census.instances.into_iter().map(|one| Registration { is_alive: false, ..one }).collect(),
        ..census
    };
    let parked = Census { mode: Mode::Ownership, parked_keys: 2, ..alive() };
    let free = Census { partitions: vec![pillarbox::store::Tenancy::default()], ..alive() };
    let overdue = Some(Duration::from_secs(301));
    for (stats, census, name, text) in [
        (quiet(), silent(alive()), "instances", "0 alive, 1 silent, and 3 events wait: nobody delivers"),
        (quiet(), free, "instances", "1 alive, and 1 partitions have no owner"),
        (Stats { oldest_due_for: overdue, ..quiet() }, alive(), "backlog", "due for 5 min 1 s"),
        (Stats { dead: 7, ..quiet() }, alive(), "dead", "7 events were given up; see `pillarbox dead list`"),
        (Stats { done_estimate: 2_000_000, ..quiet() }, alive(), "done", "set `keep_done_for`"),
        (quiet(), parked, "parked", "2 keys are parked"),
    ] {
        let bad = bad(stats, census);

        assert_eq!(bad.len(), 1, "{text}: {bad:?}");
        assert_eq!(bad[0].0, name);
        assert!(bad[0].1.contains(text), "{text}: {}", bad[0].1);
    }
}

/// M6: what could not be read is unknown, never well.
#[test]
fn failed_reading_is_unknown() {
    let denied = || StoreError::unavailable("give `GRANT SELECT`");

    let checks = operation(&Err(denied()), &Err(denied()));

    assert!(checks.iter().all(|check| check.health == Health::Unknown), "{checks:?}");
    assert_eq!(checks.len(), 5);
    assert_eq!(schema(&Err(denied())).health, Health::Unknown);
    assert!(checks[0].found.contains("give `GRANT SELECT`"), "{}", checks[0]);
}

#[test]
fn versions_have_their_remedies() {
    assert_eq!(schema(&Ok(2)).health, Health::Ok);
    for (error, found, remedy) in [
        (StoreError::NotMigrated, "there is no outbox", "run `pillarbox migrate`"),
        (
            StoreError::OlderSchema { found: 1, needed: 2 },
            "version 1, and this program needs 2",
            "run `pillarbox migrate`",
        ),
        (
            StoreError::NewerSchema { found: 9, known: 2 },
            "version 9, and this program knows 2 at most",
            "newer build",
        ),
    ] {
        let check = schema(&Err(error));
        assert_eq!(check.health, Health::Problem);
        assert!(check.found.contains(found) && check.remedy.unwrap().contains(remedy), "{found}");
    }
}

fn open(who: &str, seconds: u64, has_written: bool) -> OpenTransaction {
    let age = Duration::from_secs(seconds);
    OpenTransaction { who: who.to_owned(), state: "idle in transaction".to_owned(), age, has_written }
}

/// Who has written is told of early, who only reads late.
#[test]
fn long_transactions_are_named_writers_first() {
    let short = [open("pid 1", 4, true), open("pid 2", 59, false)];
    assert_eq!(transactions(&short, "").health, Health::Ok);
    assert!(transactions(&short, "").found.contains("2 open, the oldest for 59.0 s"));
    assert_eq!(transactions(&[], "").found, "no other transaction is open");

    let long = [open("pid 2", 600, false), open("pid 1", 6, true), open("pid 3", 1, false)];
    let check = transactions(&long, "it holds the floor");

    assert_eq!(check.health, Health::Warning);
    assert_eq!(
        check.found,
        "pid 1 has been open for 6.0 s (idle in transaction): it holds the floor; pid 2 has been open for 10 min 0 s (idle \
         in transaction)"
    );
}

#[test]
fn missing_indexes_are_problems_with_their_names() {
    let needed = ["a", "b", "c"].map(str::to_owned);

    assert_eq!(indexes(&needed, &needed, |_| unreachable!()).health, Health::Ok);
    let check = indexes(&needed, &needed[1..2], |missing| format!("make {}", missing.len()));

    assert_eq!(check.health, Health::Problem);
    assert!(
        check.to_string().contains("`a`, `c` is missing") && check.to_string().ends_with("; make 2"),
        "{check}"
    );
}

#[test]
fn sizes_have_the_unit_that_fits() {
    for (bytes, text) in
        [(512, "512 bytes"), (1_536, "1.5 KiB"), (64 << 20, "64.0 MiB"), (5 << 40, "5.0 TiB")]
    {
        assert_eq!(size(bytes), text);
    }
}
