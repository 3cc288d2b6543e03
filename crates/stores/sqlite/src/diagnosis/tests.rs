use super::*;

#[test]
fn each_setting_that_weakens_the_promise_is_named() {
    for (synchronous, health) in
        [(0, Health::Problem), (1, Health::Warning), (2, Health::Ok), (3, Health::Ok)]
    {
        assert_eq!(durability(synchronous).health, health, "{synchronous}");
    }
    assert_eq!(journal("wal").health, Health::Ok);
    assert!(journal("delete").to_string().contains("`journal_mode` is `delete`"));
}

#[test]
fn room_and_a_log_that_grow_are_told() {
    assert_eq!(bloat(100 << 20, 40 << 20, 5 << 20).health, Health::Ok);
    assert_eq!(bloat(20 << 20, 15 << 20, 0).health, Health::Ok);
    assert!(bloat(100 << 20, 60 << 20, 0).to_string().contains("60.0 MiB are free"));
    assert_eq!(bloat(100 << 20, 60 << 20, 0).health, Health::Warning);
    assert_eq!(bloat(100 << 20, 0, 33 << 20).health, Health::Warning);
}

/// S9: a missing index is a problem with its name.
#[test]
fn missing_indexes_are_named() {
    let names = Names::new(None, "eu_").unwrap();
    let all: Vec<String> = OF_BOTH.iter().chain(&OF_CLAIMS).map(|name| format!("eu_{name}")).collect();

    assert_eq!(indexes(&names, Mode::Claims, &all).health, Health::Ok);
    let check = indexes(&names, Mode::Claims, &all[..2]);
    assert!(check.to_string().contains("`eu_outbox_event_pending` is missing"), "{check}");
    assert!(check.to_string().ends_with("run `pillarbox migrate --mode claims`"), "{check}");
    let check = indexes(&names, Mode::Claims, &all[1..]);
    assert!(check.to_string().contains("--print"), "{check}");
}
