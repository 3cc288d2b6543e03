//! Options from files and from the environment: which of them win, and what is said about mistakes.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::process::Command;
use std::time::Duration;

use pillarbox::store::Mode;
use pillarbox::{
    DeadHead, EffectiveOption, MemoryStore, Origin, Outbox, OutboxBuilder, Retry, Settings, Unroutable,
};
use proptest::prelude::*;
use tracing::Level;

use crate::logs::Logs;

pub(crate) type Builder = OutboxBuilder<MemoryStore>;

/// What a program sets an option to, and how.
type Call = (&'static str, fn(Builder) -> Builder);

/// An option, its default, three values that differ from it, and how a program sets the third.
struct Case {
    name: &'static str,
    default: Option<&'static str>,
    in_file: &'static str,
    in_env: &'static str,
    by_program: Option<Call>,
}

const fn case(
    name: &'static str,
    default: Option<&'static str>,
    in_file: &'static str,
    in_env: &'static str,
    by_program: Option<Call>,
) -> Case {
    Case { name, default, in_file, in_env, by_program }
}

const SECONDS_9: Duration = Duration::from_secs(9);

/// Every option that there is.
const CASES: &[Case] = &[
    case("enabled", Some("true"), "false", "true", Some(("false", |b| b.enabled(false)))),
    case(
        "discard_when_disabled",
        Some("false"),
        "true",
        "false",
        Some(("true", |b| b.discard_when_disabled(true))),
    ),
    case("name", None, "\"orders-1\"", "\"none\"", Some(("\"orders-9\"", |b| b.name("orders-9")))),
    case(
        "topology",
        Some("\"full\""),
        "\"poller_only\"",
        "\"full\"",
        Some(("\"writer_only\"", |b| b.writer_only())),
    ),
    case("workers", Some("4"), "8", "16", Some(("9", |b| b.workers(9)))),
    case("hot_queue", Some("1000"), "8", "16", Some(("9", |b| b.hot_queue(9)))),
    case("cold_queue", Some("1000"), "8", "16", Some(("9", |b| b.cold_queue(9)))),
    case(
        "delivery_timeout",
        Some("\"30s\""),
        "\"1m\"",
        "\"90s\"",
        Some(("\"9s\"", |b| b.delivery_timeout(SECONDS_9))),
    ),
    case("margin", Some("\"5s\""), "\"1s\"", "\"500ms\"", Some(("\"9s\"", |b| b.margin(SECONDS_9)))),
    case(
        "drain_timeout",
        Some("\"5s\""),
        "\"1s\"",
        "\"500ms\"",
        Some(("\"9s\"", |b| b.drain_timeout(SECONDS_9))),
    ),
    case("shutdown_timeout", None, "\"1m\"", "\"90s\"", Some(("\"9s\"", |b| b.shutdown_timeout(SECONDS_9)))),
    case("max_starts", Some("5"), "8", "16", Some(("9", |b| b.max_starts(9)))),
    case("run_events", Some("500"), "8", "16", Some(("9", |b| b.run_limits(9, 9)))),
    case("run_bytes", Some("\"4MiB\""), "\"1MiB\"", "\"64KiB\"", Some(("9", |b| b.run_limits(9, 9)))),
    case(
        "sink_pause",
        Some("\"200ms\""),
        "\"1s\"",
        "\"2s\"",
        Some(("\"9s\"", |b| b.sink_pauses(SECONDS_9, SECONDS_9))),
    ),
    case(
        "longest_sink_pause",
        Some("\"30s\""),
        "\"1m\"",
        "\"2m\"",
        Some(("\"9s\"", |b| b.sink_pauses(SECONDS_9, SECONDS_9))),
    ),
    case("in_flight_ttl", None, "\"1m\"", "\"2m\"", Some(("\"9s\"", |b| b.in_flight_ttl(SECONDS_9)))),
    case(
        "unroutable",
        Some("\"dead\""),
        "\"hold\"",
        "\"dead\"",
        Some(("\"hold\"", |b| b.unroutable(Unroutable::Hold))),
    ),
    case("poll_every", Some("\"5s\""), "\"1s\"", "\"2s\"", Some(("\"9s\"", |b| b.poll_every(SECONDS_9)))),
    case("batch_size", Some("50"), "8", "10", Some(("9", |b| b.batch_size(9)))),
    case("max_batch", None, "80", "90", Some(("99", |b| b.max_batch(99)))),
    case("skip_recent", Some("\"0s\""), "\"1s\"", "\"2s\"", Some(("\"9s\"", |b| b.skip_recent(SECONDS_9)))),
    case("lease_for", Some("\"5m\""), "\"10m\"", "\"1h\"", Some(("\"9s\"", |b| b.lease_for(SECONDS_9)))),
    case("mode", None, "\"ownership\"", "\"claims\"", Some(("\"ownership\"", |b| b.mode(Mode::Ownership)))),
    case("ordered", Some("false"), "true", "false", Some(("true", |b| b.ordered()))),
    case(
        "stop_on_first_failure",
        Some("true"),
        "false",
        "true",
        Some(("false", |b| b.stop_on_first_failure(false))),
    ),
    case(
        "on_dead_head",
        Some("\"release\""),
        "\"park\"",
        "\"release\"",
        Some(("\"park\"", |b| b.on_dead_head(DeadHead::Park))),
    ),
    case(
        "heartbeat_every",
        Some("\"5s\""),
        "\"1s\"",
        "\"2s\"",
        Some(("\"9s\"", |b| b.heartbeat_every(SECONDS_9))),
    ),
    case(
        "silent_after",
        Some("\"30s\""),
        "\"1m\"",
        "\"2m\"",
        Some(("\"9s\"", |b| b.silent_after(SECONDS_9))),
    ),
    case(
        "rebalance_every",
        Some("\"10s\""),
        "\"1s\"",
        "\"2s\"",
        Some(("\"9s\"", |b| b.rebalance_every(SECONDS_9))),
    ),
    case(
        "publish_after_save",
        Some("true"),
        "false",
        "true",
        Some(("false", |b| b.publish_after_save(false))),
    ),
    case("store_events", Some("true"), "false", "true", Some(("false", |b| b.store_events(false)))),
    case("delete_done", Some("false"), "true", "false", Some(("true", |b| b.delete_done()))),
    case("keep_done_for", None, "\"7d\"", "\"1d\"", Some(("\"9s\"", |b| b.keep_done_for(SECONDS_9)))),
    case("retry.kind", Some("\"default\""), "\"fixed\"", "\"exponential\"", None),
    case("retry.initial", None, "\"100ms\"", "\"1s\"", None),
    case("retry.max", None, "\"10m\"", "\"1m\"", None),
    case("retry.multiplier", None, "3.0", "1.5", None),
    case("retry.jitter", Some("\"0s\""), "\"500ms\"", "\"1s\"", None),
    case("retry.spread", None, "true", "false", None),
    case("retry.max_attempts", None, "5", "6", None),
    case("retry.max_retries", None, "5", "6", None),
    case("retry.only", Some("[]"), "[\"io\"]", "[\"timeout\", \"io\"]", None),
    case("retry.never", Some("[]"), "[\"io\"]", "[\"panic\"]", None),
    case("store.url", None, "\"sqlite:orders.db\"", "\"sqlite:other.db\"", None),
    case("store.url_file", None, "\"/run/secrets/db\"", "\"/etc/db\"", None),
    case("store.schema", None, "\"shop\"", "\"other\"", None),
    case("store.prefix", None, "\"shop_\"", "\"other_\"", None),
    case("store.migrate", Some("false"), "true", "false", None),
    case("store.max_connections", None, "3", "4", None),
    case("store.create_if_missing", None, "true", "false", None),
    case("store.wake_up", None, "true", "false", None),
    case("store.lock_timeout", None, "\"1s\"", "\"2s\"", None),
    case("store.longest_transaction", None, "\"1m\"", "\"2m\"", None),
];

fn variable(case: &Case) -> (String, String) {
    let name = format!("PILLARBOX_{}", case.name.replace('.', "_").to_uppercase());
    let value = case.in_env.trim_matches('"');
    let list = value.strip_prefix('[').map(|names| names.replace(['"', ']'], ""));
    (name, list.unwrap_or(value.to_owned()))
}

fn in_file(case: &Case) -> Settings {
    Settings::from_toml(&format!("{} = {}", case.name, case.in_file)).unwrap()
}

fn in_env(case: &Case) -> Settings {
    Settings::from_vars("PILLARBOX_", [variable(case)]).unwrap()
}

pub(crate) fn builder() -> Builder {
    Outbox::builder(MemoryStore::new())
}

pub(crate) fn found(builder: &Builder, name: &str) -> EffectiveOption {
    builder.effective().into_iter().find(|option| option.name == name).unwrap()
}

#[track_caller]
fn assert_is(builder: &Builder, case: &Case, value: Option<&str>, origin: Origin) {
    let value = value.map(|value| if case.name == "store.url" { "\"…\"" } else { value });
    let option = found(builder, case.name);

    assert_eq!((option.value.as_deref(), option.origin), (value, origin), "{}", case.name);
}

fn at_line_1(column: usize) -> Origin {
    Origin::Text { file: None, line: 1, column }
}

/// M4: the cases are all options, so that the tests below leave none out.
#[test]
fn cases_are_all_options() {
    let (cases, options): (Vec<&str>, Vec<&str>) = (
        CASES.iter().map(|case| case.name).collect(),
        builder().effective().iter().map(|option| option.name).collect(),
    );

    assert_eq!(cases, options);
}

/// M4: what nobody sets is the default.
#[test]
fn unset_options_have_their_defaults() {
    for case in CASES {
        assert_is(&builder(), case, case.default, Origin::Default);
    }
}

/// M4: a file wins over the default.
#[test]
fn file_wins_over_the_default() {
    for case in CASES {
        let settings = in_file(case);

        let builder = builder().settings(settings);

        assert_is(&builder, case, Some(case.in_file), at_line_1(case.name.len() + 4));
    }
}

/// M4: the environment wins over a file, whichever is merged first.
#[test]
fn environment_wins_over_a_file() {
    for case in CASES {
        let origin = || Origin::Variable { name: variable(case).0 };
        let (file, env) = (in_file(case), in_env(case));

        assert_is(&builder().settings(file.clone().merge(env.clone())), case, Some(case.in_env), origin());
        assert_is(&builder().settings(env.clone().merge(file.clone())), case, Some(case.in_env), origin());
        assert_is(&builder().settings(env).settings(file), case, Some(case.in_env), origin());
    }
}

/// M4: the program wins over both, whether it speaks before or after them.
#[test]
fn program_wins_over_all() {
    for (case, (value, set)) in CASES.iter().filter_map(|case| Some((case, case.by_program?))) {
        let settings = in_file(case).merge(in_env(case));

        let before = set(builder()).settings(settings.clone());
        let after = set(builder().settings(settings));

        assert_is(&before, case, Some(value), Origin::Program);
        assert_is(&after, case, Some(value), Origin::Program);
    }
}

/// M4, L5: a policy of the program takes the place of all that is said about retries.
#[test]
fn policy_of_the_program_wins() {
    for case in CASES.iter().filter(|case| case.name.starts_with("retry.")) {
        let before = builder().retry(Retry::default()).settings(in_env(case));
        let after = builder().settings(in_env(case)).retry(Retry::default());

        assert_is(&before, case, None, Origin::Program);
        assert_is(&after, case, None, Origin::Program);
    }
}

/// M4: of two files the one that is merged last wins.
#[test]
fn later_file_wins() {
    let [first, second] = ["workers = 1", "workers = 2"].map(|text| Settings::from_toml(text).unwrap());

    let builder = builder().settings(first.merge(second));

    assert_eq!(found(&builder, "workers").value.as_deref(), Some("2"));
}

/// M4: `none` takes back what a file says.
#[test]
fn none_unsets_an_option() {
    let file = Settings::from_toml("keep_done_for = \"7d\"\nmax_batch = 80\nmode = \"ownership\"").unwrap();
    let names = ["KEEP_DONE_FOR", "MAX_BATCH", "MODE"];
    let env = Settings::from_vars("PILLARBOX_", names.map(|name| (format!("PILLARBOX_{name}"), "none")));

    let builder = builder().settings(file.merge(env.unwrap()));

    for name in ["keep_done_for", "max_batch", "mode"] {
        assert_eq!(found(&builder, name).value, None, "{name}");
    }
}

/// M4: the template is a file of all options that changes nothing.
#[test]
fn template_is_the_defaults() {
    let template = Settings::template();

    let settings = Settings::from_toml(&template).unwrap();
    let set: Vec<&str> = settings.options().iter().map(|option| option.name).collect();
    let with_template = builder().settings({
        // It has an option of the store.
        settings.store();
        settings.clone()
    });

    for case in CASES {
        assert_eq!(found(&with_template, case.name).value.as_deref(), case.default, "{}", case.name);
        assert_eq!(set.contains(&case.name), case.default.is_some(), "{}", case.name);
    }
    assert_eq!(settings.check(), Ok(()));
}

/// M4: what is a comment in the template can be used as it stands there.
#[test]
fn examples_in_the_template_are_understood() {
    let lines = Settings::template();
    let mut table = String::new();
    let mut tried = BTreeSet::new();
    for line in lines.lines() {
        if line.starts_with('[') {
            table = line.to_owned();
        }
        let example = line.strip_prefix("# ").filter(|line| line.split(' ').nth(1) == Some("="));
        if let Some(example) = example {
            let read = Settings::from_toml(&format!("{table}\n{example}")).unwrap();
            tried.insert(read.options()[0].name);
        }
    }

    let without_default = CASES.iter().filter(|case| case.default.is_none()).map(|case| case.name);
    assert_eq!(tried, without_default.collect());
}

/// M4: variables of other programs with the prefix are named in one warning; ours for other purposes are not.
#[test]
fn variables_of_others_are_left_alone() {
    let logs = Logs::collect();
    let others = ["HOME", "NODE", "SERVICE_HOST", "PORT_5432_TCP", "DB", "TEST_POSTGRES_URL", "SEED"];
    let others = others.map(|name| (format!("PILLARBOX_{name}"), "seventeen"));

    let settings = Settings::from_vars("PILLARBOX_", others).unwrap();

    assert_eq!(settings.options(), []);
    let warnings = logs.at(Level::WARN);
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    let named = ["HOME", "NODE", "PORT_5432_TCP", "SERVICE_HOST"].map(|name| format!("PILLARBOX_{name}"));
    assert!(warnings[0].contains(&format!("{}\"", named.join(", "))), "{warnings:?}");
    assert!(!warnings[0].contains("seventeen"));
}

/// M4: the prefix can be another, and an empty variable is none.
#[test]
fn prefix_is_yours_to_choose() {
    let variables = [("ORDERS_WORKERS", "8"), ("PILLARBOX_WORKERS", "16"), ("ORDERS_POLL_EVERY", "")];

    let options = Settings::from_vars("ORDERS_", variables).unwrap().options();

    assert_eq!(options.len(), 1);
    assert_eq!((options[0].name, options[0].value.as_deref()), ("workers", Some("8")));
}

/// M4: digits of a variable may be grouped, as they may in a file.
#[test]
fn digits_may_be_grouped() {
    let settings = Settings::from_vars("PILLARBOX_", [("PILLARBOX_WORKERS", "1_000")]).unwrap();

    assert_eq!(found(&builder().settings(settings), "workers").value.as_deref(), Some("1000"));
}

/// M4: the variables of a process reach its outbox.
#[test]
fn environment_of_the_process_is_read() {
    const CHILD: &str = "PILLARBOX_TEST_SETTINGS_CHILD";
    if std::env::var_os(CHILD).is_some() {
        println!("{:?}", Settings::from_env().unwrap());
        return;
    }

    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "settings::environment_of_the_process_is_read", "--nocapture"])
        .env(CHILD, "1")
        .env("PILLARBOX_POLL_EVERY", "17s")
        .output()
        .unwrap();

    let output = String::from_utf8_lossy(&child.stdout);
    assert!(child.status.success(), "{output}");
    assert!(output.contains(r#"Some("\"17s\""), Variable { name: "PILLARBOX_POLL_EVERY" }"#), "{output}");
}

/// M4: settings are a part of any configuration; mistakes are told by its format.
#[test]
fn settings_are_a_part_of_other_formats() {
    #[derive(Debug, serde::Deserialize)]
    struct Shop {
        outbox: Settings,
    }
    let read = |json: &str| serde_json::from_str::<Shop>(json);

    let shop =
        read(r#"{"outbox": {"workers": 8, "retry": {"multiplier": 1.5, "only": ["io"]}, "ordered": true}}"#);
    let builder = builder().settings(shop.unwrap().outbox);
    assert_eq!(found(&builder, "workers").value.as_deref(), Some("8"));
    assert_eq!(found(&builder, "retry.multiplier").value.as_deref(), Some("1.5"));
    assert_eq!(found(&builder, "ordered").origin, Origin::Embedded);

    let error = read(r#"{"outbox": {"workres": 8}}"#).unwrap_err().to_string();
    assert!(error.contains("unknown option `workres`; did you mean `workers`?"), "{error}");
    assert!(read(r#"{"outbox": 8}"#).is_err() && read(r#"{"outbox": {"workers": null}}"#).is_err());
}

/// E's configuration reference, all of it.
const REFERENCE: [&str; 27] = [
    "enabled",
    "poll-interval",
    "rebalance-interval",
    "batch-size",
    "processing.stop-on-first-failure",
    "processing.publish-after-save",
    "processing.delete-completed-records",
    "processing.executor-core-pool-size",
    "processing.executor-max-pool-size",
    "processing.executor-concurrency-limit",
    "multicaster.enabled",
    "instance.graceful-shutdown-timeout-seconds",
    "instance.stale-instance-timeout-seconds",
    "instance.heartbeat-interval-seconds",
    "jdbc.table-prefix",
    "jdbc.schema-name",
    "jdbc.schema-initialization.enabled",
    "retry.policy",
    "retry.max-retries",
    "retry.include-exceptions",
    "retry.exclude-exceptions",
    "retry.fixed.delay",
    "retry.exponential.initial-delay",
    "retry.exponential.max-delay",
    "retry.exponential.multiplier",
    "retry.jittered.base-policy",
    "retry.jittered.jitter",
];

/// The words in backticks in a text.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// M4: the guide has a row for every option of E's reference, with one of ours that exists, and tests that exist.
#[test]
fn guide_has_every_option_of_the_reference() {
    let sources = [
        include_str!("settings_at_work.rs"),
        include_str!("settings_refused.rs"),
        include_str!("disabling.rs"),
        include_str!("../../../stores/any/tests/any/files.rs"),
    ];
    let guide = include_str!("../../../../docs/guide/configuration.md");
    let (_, table) = guide.split_once("| there | here |").unwrap();
    let rows: Vec<Vec<&str>> = table
        .lines()
        .skip(2)
        .map_while(|row| row.strip_prefix('|'))
        .map(|row| row.split('|').collect())
        .collect();

    let named: Vec<&str> = rows.iter().filter_map(|row| quoted(row[0]).next()).collect();
    assert_eq!(named, REFERENCE);
    for row in rows {
        let here = quoted(row[1]).next().unwrap();
        assert!(CASES.iter().any(|case| case.name == here), "{row:?}");
        let there = quoted(row[0]).next().unwrap();
        let answer = Settings::from_toml(&format!("{there} = 1")).unwrap_err().to_string();
        assert!(answer.contains(&format!("`{here}`")), "{answer}");
        for test in quoted(row[4]) {
            assert!(
                sources.iter().any(|source| source.contains(&format!("fn {test}("))),
                "{test} of {row:?}"
            );
        }
        assert!(quoted(row[4]).next().is_some(), "{row:?} has no test");
    }
}

/// Texts that are nearly files of options.
fn texts() -> impl Strategy<Value = String> {
    let name = prop_oneof![
        proptest::sample::select(CASES.iter().map(|case| case.name).collect::<Vec<_>>())
            .prop_map(str::to_owned),
        "[a-z_.\"-]{0,12}",
    ];
    let value = prop_oneof![
        "-?[0-9_]{1,25}",
        "-?[0-9]{1,4}\\.[0-9]{1,4}",
        "\"[0-9]{0,25}(ms|s|m|h|d|MiB|KB)\"",
        "(true|false|nan|inf|1979-05-27)",
        "\\[\"\\PC{0,5}\"\\]",
        "\\{ [a-z]{1,5} = 1 \\}",
        "\\PC{0,12}",
    ];
    let line =
        prop_oneof![(name, value).prop_map(|(name, value)| format!("{name} = {value}")), "\\[[a-z.]{0,8}\\]"];
    prop_oneof![".*", proptest::collection::vec(line, 0..6).prop_map(|lines| lines.join("\n"))]
}

proptest! {
    /// M4: no text makes it panic, and what is understood can be printed and checked.
    #[test]
    fn no_text_makes_it_panic(text in texts(), table in "[a-z.]{0,4}") {
        match Settings::from_toml(&text) {
            Ok(settings) => {
                let _ = (settings.check(), settings.store(), format!("{settings:?}"));
                let _ = builder().settings(settings).effective();
            }
            Err(error) => prop_assert!(!error.to_string().is_empty()),
        }
        let _ = Settings::from_table_in_toml(&text, &table);
    }

    /// M4: no variable makes it panic.
    #[test]
    fn no_variable_makes_it_panic(
        name in proptest::sample::select(CASES.iter().map(|case| variable(case).0).collect::<Vec<_>>()),
        suffix in "[A-Z_]{0,2}",
        value in proptest::collection::vec(any::<u8>(), 0..20),
    ) {
        let _ = Settings::from_vars("PILLARBOX_", [(OsString::from(name + &suffix), OsString::from_vec(value))]);
    }
}
