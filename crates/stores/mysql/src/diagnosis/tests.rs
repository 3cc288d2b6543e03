use pillarbox::store::Health;

use super::*;

fn durable() -> Settings {
    Settings {
        flush_log: 1,
        has_binlog: true,
        sync_binlog: 1,
        doublewrite: "ON".to_owned(),
        packet: 16 << 20,
    }
}

#[test]
fn each_setting_that_weakens_the_promise_is_named() {
    for (settings, health, text) in [
        (durable(), Health::Ok, "`innodb_flush_log_at_trx_commit` 1"),
        (Settings { flush_log: 2, ..durable() }, Health::Warning, "`innodb_flush_log_at_trx_commit` is 2"),
        (Settings { sync_binlog: 0, ..durable() }, Health::Warning, "`sync_binlog` is 0"),
        (Settings { sync_binlog: 0, has_binlog: false, ..durable() }, Health::Ok, "on disk"),
        (
            Settings { doublewrite: "0".to_owned(), ..durable() },
            Health::Warning,
            "`innodb_doublewrite` is off",
        ),
    ] {
        let check = settings.durability();
        assert_eq!(check.health, health, "{check}");
        assert!(check.found.contains(text), "{check}");
    }
}

/// V2: a server that does not take the largest legal event is told of.
#[test]
fn small_packets_are_told() {
    assert_eq!(durable().packet().health, Health::Ok);
    let check = Settings { packet: 1 << 20, ..durable() }.packet();
    assert_eq!(check.health, Health::Warning);
    assert!(check.found.starts_with("`max_allowed_packet` is 1.0 MiB"), "{check}");
}

#[test]
fn room_that_is_not_used_is_told() {
    assert_eq!(bloat("outbox_event", 1 << 20, 63 << 20).health, Health::Ok);
    assert_eq!(bloat("outbox_event", 80 << 20, 70 << 20).health, Health::Ok);
    let check = bloat("outbox_event", 1 << 20, 80 << 20);
    assert_eq!(check.health, Health::Warning);
    assert!(
        check.to_string().contains("80.0 MiB free; ")
            && check.to_string().contains("`OPTIMIZE TABLE outbox_event`")
    );
}

#[test]
fn long_history_is_told() {
    assert_eq!(sessions::history(17).health, Health::Ok);
    assert_eq!(sessions::history(2_000_000).health, Health::Warning);
}

/// O3: numbers that are not given one by one are a problem to owners, and to nobody else.
#[test]
fn numbers_must_be_given_one_by_one_to_owners() {
    assert_eq!(numbers(Mode::Claims, 2).health, Health::Ok);
    assert_eq!(numbers(Mode::Ownership, 1).health, Health::Ok);
    assert_eq!(numbers(Mode::Ownership, 2).health, Health::Problem);
}

/// S9: a missing index is a problem with its name; a table that is not shown is unknown.
#[test]
fn missing_indexes_are_named() {
    let names = Names::new(Some("shop"), "eu_").unwrap();
    let named = |name: &&str| format!("eu_{name}");
    let all: Vec<String> = OF_BOTH.iter().chain(&OF_OWNERSHIP).map(named).collect();

    assert_eq!(indexes(&names, Mode::Ownership, &all).health, Health::Ok);
    let check = indexes(&names, Mode::Claims, &all);
    assert_eq!(check.health, Health::Problem);
    assert!(check.to_string().contains("`eu_outbox_event_pending` is missing"), "{check}");
    assert!(check.to_string().ends_with("run `pillarbox migrate --mode claims`"), "{check}");
    let check = indexes(&names, Mode::Ownership, &all[1..]);
    assert!(
        check.to_string().contains("`eu_outbox_event_id`") && check.to_string().contains("--print"),
        "{check}"
    );
    let check = indexes(&names, Mode::Claims, &[]);
    assert_eq!(check.health, Health::Unknown);
    assert!(check.to_string().ends_with("give `GRANT SELECT ON shop.eu_outbox_event`"), "{check}");
}
