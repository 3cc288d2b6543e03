use pillarbox::store::Health;

use super::*;

fn durable() -> Settings {
    let on = || "on".to_owned();
    Settings {
        fsync: on(),
        full_page_writes: on(),
        synchronous_commit: on(),
        autovacuum: on(),
        track_counts: on(),
        asynchronous_roles: Vec::new(),
    }
}

#[test]
fn each_setting_that_weakens_the_promise_is_named() {
    let off = || "off".to_owned();
    let roles = vec!["importer".to_owned()];
    for (settings, health, text) in [
        (durable(), Health::Ok, "`synchronous_commit` on"),
        (Settings { fsync: off(), ..durable() }, Health::Problem, "`fsync` is off"),
        (Settings { full_page_writes: off(), ..durable() }, Health::Problem, "`full_page_writes` is off"),
        (
            Settings { synchronous_commit: off(), ..durable() },
            Health::Warning,
            "`synchronous_commit` is off for this role",
        ),
        (Settings { asynchronous_roles: roles, ..durable() }, Health::Warning, "is off for `importer`"),
    ] {
        let check = settings.durability();
        assert_eq!(check.health, health, "{check}");
        assert!(check.found.contains(text), "{check}");
    }
    assert_eq!(durable().vacuum().health, Health::Ok);
    assert_eq!(Settings { autovacuum: off(), ..durable() }.vacuum().health, Health::Warning);
    assert_eq!(Settings { track_counts: off(), ..durable() }.vacuum().health, Health::Warning);
}

#[test]
fn dead_versions_that_nobody_clears_away_are_told() {
    let well = || Bloat { live: 100, dead: 49_999, vacuumed_ago: None, size: 1 << 20, is_left_out: false };
    for (bloat, health, text) in [
        (
            well(),
            Health::Ok,
            "49999 dead versions of rows to 100 live ones, 1.0 MiB with indexes, never vacuumed",
        ),
        (Bloat { dead: 60_000, live: 70_000, ..well() }, Health::Ok, "60000 dead"),
        (Bloat { dead: 60_000, ..well() }, Health::Warning, "run `VACUUM outbox_event`"),
        (Bloat { is_left_out: true, ..well() }, Health::Warning, "RESET (autovacuum_enabled)"),
        (Bloat { vacuumed_ago: Some(90_000_000), ..well() }, Health::Ok, "vacuumed 1 min 30 s ago"),
    ] {
        let check = bloat.judge("outbox_event");
        assert_eq!(check.health, health, "{check}");
        assert!(check.to_string().contains(text), "{check}");
    }
}

/// O3: numbers that are not given one by one are a problem to owners, and to nobody else.
#[test]
fn numbers_must_be_given_one_by_one_to_owners() {
    let names = Names::new(Some("shop"), "").unwrap().quoted();

    assert_eq!(numbers(&names, Mode::Claims, 2, 50).health, Health::Ok);
    assert_eq!(numbers(&names, Mode::Ownership, 1, 1).health, Health::Ok);
    let check = numbers(&names, Mode::Ownership, 1, 50);
    assert_eq!(check.health, Health::Problem);
    assert!(
        check.to_string().contains("cache 50")
            && check.to_string().contains("ALTER SEQUENCE shop.outbox_event")
    );
}

fn there(mode: Mode) -> Vec<(String, bool)> {
    OF_BOTH.iter().chain(indexes_of(mode)).map(|name| (format!("eu_{name}"), true)).collect()
}

/// S9: the statement that makes a missing index anew is told, for every index.
#[test]
fn missing_index_comes_with_its_definition() {
    let names = Names::new(Some("shop"), "eu_").unwrap().quoted();
    for mode in [Mode::Claims, Mode::Ownership] {
        let all = there(mode);
        assert_eq!(indexes(&names, mode, &all).health, Health::Ok);
        for (index, (name, _)) in all.iter().enumerate() {
            let mut others = all.clone();
            others.remove(index);

            let check = indexes(&names, mode, &others);

            assert_eq!(check.health, Health::Problem);
            assert!(check.found.contains(&format!("`{name}` is missing")), "{check}");
            let made = format!("`CREATE INDEX CONCURRENTLY {name} ON shop.eu_outbox_event (");
            let is_made = check.remedy.as_ref().unwrap().contains(&made);
            // Those of constraints, `…_key` and `…_pkey`, are not made by themselves.
            assert!(is_made || name.ends_with("key"), "{check}");
        }
    }
}

#[test]
fn invalid_index_is_to_be_built_anew() {
    let names = Names::new(Some("shop"), "eu_").unwrap().quoted();
    let mut found = there(Mode::Claims);
    found.last_mut().unwrap().1 = false;

    let check = indexes(&names, Mode::Claims, &found);

    assert_eq!(check.health, Health::Problem);
    assert!(
        check.to_string().ends_with("run `REINDEX INDEX CONCURRENTLY shop.eu_outbox_event_pending`"),
        "{check}"
    );
}
