//! Mistakes in files and variables, and what is said about them.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use pillarbox::{MemorySink, Origin, Settings};

use crate::settings::{Builder, builder, found};
use crate::stage::{HOUR, SECOND, Stage};

#[track_caller]
fn refused(text: &str, expected: &str) {
    let error = Settings::from_toml(text).unwrap_err();

    assert_eq!(error.to_string(), expected, "{text}");
}

/// M4: an unknown option is named with its place and the right name, also when others call it so.
#[test]
fn unknown_options_are_answered_with_the_right_one() {
    refused("\nworkres = 8", "line 2, column 1: unknown option `workres`; did you mean `workers`?");
    refused(
        "[retry]\nmax_atempts = 5",
        "line 2, column 1: unknown option `retry.max_atempts`; did you mean `retry.max_attempts`?",
    );
    refused(
        "retry = { attempts = 5 }",
        "line 1, column 11: unknown option `retry.attempts`; `Settings::template` prints all options",
    );
    refused(
        "max_attempts = 5",
        "line 1, column 1: unknown option `max_attempts`; did you mean `retry.max_attempts`?",
    );
    refused(
        "poll-interval = 2000",
        "line 1, column 1: unknown option `poll-interval`; did you mean `poll_every`?",
    );
    refused(
        "[processing]\ndelete-completed-records = true",
        "line 2, column 1: unknown option `processing.delete-completed-records`; did you mean `delete_done`?",
    );
    refused(
        "[retry.exponential]\nmax-delay = 60000",
        "line 2, column 1: unknown option `retry.exponential.max-delay`; did you mean `retry.max`?",
    );
    refused(
        "retry = 5",
        "line 1, column 1: unknown option `retry`; it is a table of options, and stands as `[retry]`",
    );
    refused(
        "[colours]",
        "line 1, column 2: unknown option `colours`; `Settings::template` prints all options",
    );
}

/// M4: core pool size is `workers`; a maximum, and no limit at all, are refused with that hint.
#[test]
fn maximum_pool_size_and_no_limit_are_refused() {
    let most = "there is no maximum pool size: set `workers`, as many listeners run at once";
    refused(
        "[processing]\nexecutor-max-pool-size = 8",
        &format!("line 2, column 1: unknown option `processing.executor-max-pool-size`; {most}"),
    );
    refused(
        "executor_max_pool_size = 8",
        &format!("line 1, column 1: unknown option `executor_max_pool_size`; {most}"),
    );
    refused("max_workers = 8", &format!("line 1, column 1: unknown option `max_workers`; {most}"));
    refused(
        "executor-core-pool-size = 4",
        "line 1, column 1: unknown option `executor-core-pool-size`; did you mean `workers`?",
    );
    refused(
        "executor-concurrency-limit = -1",
        "line 1, column 1: unknown option `executor-concurrency-limit`; the limit is `workers`, and there is none without a limit (-1): set `workers` to what may run at once",
    );
    let hint = "there is no maximum beside it, and -1 for as many as there are events does not exist: set `workers` to what may run at once";
    refused("workers = -1", &format!("line 1, column 11: `workers` is -1: it must not be negative; {hint}"));
}

/// M4: a value that does not fit is named with its option, its place and what would.
#[test]
fn values_that_do_not_fit_are_answered() {
    refused(
        "poll_every = 2000",
        "line 1, column 14: `poll_every` is 2000: a duration needs its unit, like `\"2000ms\"` or `\"2000s\"`",
    );
    refused(
        "poll_every = \"soon\"",
        "line 1, column 14: `poll_every` is \"soon\": it must be a duration, like `5s`, `100ms`, `2m` or `1h30m`; units are `d`, `h`, `m`, `s`, `ms`, `us` and `ns`",
    );
    refused("hot_queue = \"8\"", "line 1, column 13: `hot_queue` is \"8\": it must be a whole number");
    refused(
        "max_starts = 4294967296",
        "line 1, column 14: `max_starts` is 4294967296: it must be at most 4294967295",
    );
    refused(
        "hot_queue = 99999999999999999999",
        "line 1, column 13: `hot_queue` is 99999999999999999999: it must be at most 18446744073709551615",
    );
    refused("ordered = \"yes\"", "line 1, column 11: `ordered` is \"yes\": it must be `true` or `false`");
    refused(
        "mode = \"claim\"",
        "line 1, column 8: `mode` is \"claim\": it must be one of `\"claims\"`, `\"ownership\"`",
    );
    refused(
        "run_bytes = \"4mb\"",
        "line 1, column 13: `run_bytes` is \"4mb\": it must be a number of bytes, like `4MiB`, `64KiB` or `1000000`",
    );
    refused("name = 17", "line 1, column 8: `name` is 17: it must be text, in quotes");
    refused(
        "retry.only = [1]",
        "line 1, column 14: `retry.only` is a list: it must be a list of names, like `[\"timeout\", \"io\"]`",
    );
    refused(
        "retry.kind = \"jittered\"",
        "line 1, column 14: `retry.kind` is \"jittered\": it must be one of `\"default\"`, `\"exponential\"`, `\"fixed\"`; for `jittered`, set `retry.jitter` beside one of them",
    );
    refused("workers = [[", "line 1, column 13: this is no TOML: unclosed array, expected `]`");
}

/// T2, T4: attempts and retries in one place are refused; the environment takes back what a file said the other way.
#[test]
fn attempts_and_retries_together_are_refused() {
    refused(
        "[retry]\nmax_attempts = 5\nmax_retries = 4",
        "line 3, column 15: `retry.max_retries` is 4: `retry.max_attempts` is set too, in line 2, column 16; choose one of them",
    );
    let both = [("PILLARBOX_RETRY_MAX_ATTEMPTS", "5"), ("PILLARBOX_RETRY_MAX_RETRIES", "4")];
    let error = Settings::from_vars("PILLARBOX_", both).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the variable `PILLARBOX_RETRY_MAX_RETRIES`: `retry.max_retries` is \"4\": `retry.max_attempts` is set too, in the variable `PILLARBOX_RETRY_MAX_ATTEMPTS`; choose one of them"
    );

    let file = Settings::from_toml("retry.max_attempts = 5").unwrap();
    let env = Settings::from_vars("PILLARBOX_", [both[1]]).unwrap();
    for settings in [file.clone().merge(env.clone()), env.merge(file)] {
        let builder = builder().settings(settings);
        assert_eq!(found(&builder, "retry.max_attempts").value, None);
        assert_eq!(found(&builder, "retry.max_retries").value.as_deref(), Some("4"));
    }
}

/// M4: variables are named in errors; one that is nearly an option is an error, one of another program is left alone.
#[test]
fn variables_are_answered_too() {
    let answer =
        |name: &str, value: &str| Settings::from_vars("PILLARBOX_", [(name, value)]).unwrap_err().to_string();

    assert_eq!(
        answer("PILLARBOX_POLL_EVERY", "2"),
        "the variable `PILLARBOX_POLL_EVERY`: `poll_every` is \"2\": a duration needs its unit, like `\"2ms\"` or `\"2s\"`"
    );
    assert_eq!(
        answer("PILLARBOX_WORKRES", "8"),
        "the variable `PILLARBOX_WORKRES`: unknown option `PILLARBOX_WORKRES`; did you mean `PILLARBOX_WORKERS`?"
    );
    assert!(answer("PILLARBOX_RETRY_ATTEMPTS", "8").contains("unknown option `PILLARBOX_RETRY_ATTEMPTS`"));
    assert!(answer("PILLARBOX_POLL_INTERVAL", "2000").ends_with("did you mean `PILLARBOX_POLL_EVERY`?"));
    assert!(answer("PILLARBOX_MAX_ATTEMPTS", "5").ends_with("did you mean `PILLARBOX_RETRY_MAX_ATTEMPTS`?"));
    assert!(answer("PILLARBOX_EXECUTOR_MAX_POOL_SIZE", "8").contains("set `workers`"));
    assert!(answer("PILLARBOX_WORKERS", "-1").contains("-1 for as many as there are events does not exist"));
}

/// M4: a variable that is no text is refused without being shown; a name that is none is nobody's.
#[test]
fn variables_that_are_no_text_are_refused() {
    let bytes = || OsString::from_vec(vec![b'x', 0xff]);

    let error = Settings::from_vars("PILLARBOX_", [(OsString::from("PILLARBOX_NAME"), bytes())]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the variable `PILLARBOX_NAME`: `name` is not shown: it must be text in UTF-8"
    );
    assert!(Settings::from_vars("", [(bytes(), bytes())]).is_ok());
}

/// M4: a file that does not exist is named, and so is the place in one that does.
#[test]
fn files_are_named() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("pillarbox.toml");

    let error = Settings::from_file(&file).unwrap_err();
    assert_eq!(error.to_string(), format!("the settings `{}` cannot be read", file.display()));
    assert!(std::error::Error::source(&error).is_some());

    std::fs::write(&file, "[outbox.orders]\nworkers = 8\n[outbox.mails]\nworkres = 8").unwrap();
    let settings = Settings::from_table_in_file(&file, "outbox.orders").unwrap();
    let origin = Origin::Text { file: Some(file.clone()), line: 2, column: 11 };
    assert_eq!(settings.options()[0].origin, origin);
    let error = Settings::from_table_in_file(&file, "outbox.mails").unwrap_err();
    assert!(
        error.to_string().starts_with(&format!("`{}`, line 4, column 1: unknown", file.display())),
        "{error}"
    );
    let error = Settings::from_table_in_file(&file, "outbox.bills").unwrap_err();
    assert_eq!(error.to_string(), format!("`{}`: there is no table `outbox.bills`", file.display()));
}

/// M4: nothing secret is shown, neither by errors nor by what prints settings.
#[test]
fn secrets_are_not_shown() {
    let url = "postgres://app:seventeen@db/shop";
    let settings = Settings::from_toml(&format!("store.url = \"{url}\"")).unwrap();
    let env = Settings::from_vars("PILLARBOX_", [("PILLARBOX_STORE_URL", url)]).unwrap();
    assert_eq!(settings.store().url.as_deref(), Some(url), "whoever asks gets it");

    let mut shown =
        format!("{settings:?} {env:?} {:?} {:?}", settings.store(), builder().settings(settings.clone()));
    shown += &format!("{:?}", builder().settings(settings).effective());
    for text in [
        "store.url = [\"seventeen\"]",
        "store = \"postgres://app:seventeen@db/shop\"",
        "workers = \"postgres://app:seventeen@db/shop\"",
        "store.url = \"postgres://app:seventeen@db/shop\nworkers = 8",
        "store.ulr = \"postgres://app:seventeen@db/shop\"",
    ] {
        shown += &Settings::from_toml(text).unwrap_err().to_string();
    }

    assert!(!shown.contains("seventeen"), "{shown}");
}

/// M4: what makes no sense together is refused by `start`, with where each of it comes from.
#[tokio::test(start_paused = true)]
async fn impossible_combinations_name_their_origins() {
    let refused = |builder: Builder, expected: &str| {
        let error = builder.start().unwrap_err();
        assert_eq!(error.to_string(), expected);
    };
    let stage = Stage::set();
    let file = |text: &str| Settings::from_toml(text).unwrap();
    let env = |name: &str, value: &str| Settings::from_vars("PILLARBOX_", [(name, value)]).unwrap();

    refused(
        stage.outbox().settings(file("workers = 0")),
        "`workers` is 0: it must be at least 1 (`workers` comes from line 1, column 11)",
    );
    refused(
        stage.outbox().settings(file("lease_for = \"20s\"").merge(env("PILLARBOX_MARGIN", "10s"))),
        "`lease_for` is 20s: it must exceed `delivery_timeout` and `margin`, together 40s, or an event is taken by another while its listener runs (`lease_for` comes from line 1, column 13, `margin` comes from the variable `PILLARBOX_MARGIN`)",
    );
    refused(
        stage.outbox().delete_done().settings(env("PILLARBOX_KEEP_DONE_FOR", "1h")),
        "`keep_done_for` is 3600s: with `delete_done` there is nothing to keep; use one of the two (`keep_done_for` comes from the variable `PILLARBOX_KEEP_DONE_FOR`)",
    );
    refused(stage.outbox().workers(0).settings(file("workers = 8")), "`workers` is 0: it must be at least 1");
    refused(
        stage
            .outbox()
            .on_sink("Order", "OrderPlaced", MemorySink::new())
            .settings(file("topology = \"writer_only\"")),
        "`on` is set: an outbox that only writes calls no listener; leave one of the two out (`topology` comes from line 1, column 12)",
    );
    refused(
        stage.outbox().settings(file("retry = { max_attempts = 0 }")),
        "`retry.max_attempts` is 0: the first delivery counts too; set it to 1 for no retries (`retry.max_attempts` comes from line 1, column 26)",
    );
    refused(
        stage.outbox().settings(file("retry = { max = \"1s\", initial = \"2s\" }")),
        "`retry.max` is 1s: it is shorter than `retry.initial`, 2s; raise the one or lower the other (`retry.initial` comes from line 1, column 33, `retry.max` comes from line 1, column 17)",
    );
    refused(
        stage.outbox().settings(file("retry = { kind = \"fixed\", multiplier = 3.0 }")),
        "`retry.multiplier` is 3: with the `retry.kind` \"fixed\" delays do not grow; leave it out, or use \"exponential\" (`retry.kind` comes from line 1, column 18, `retry.multiplier` comes from line 1, column 40)",
    );
}

/// M4: `check` finds without an outbox what `start` would refuse.
#[test]
fn settings_can_be_checked_alone() {
    let answer = |text: &str| Settings::from_toml(text).unwrap().check().unwrap_err().to_string();

    assert!(answer("workers = 0").starts_with("`workers` is 0"));
    assert!(answer("retry.multiplier = 0.5").starts_with("`retry.multiplier` is 0.5"));
    assert_eq!(Settings::from_toml("workers = 8").unwrap().check(), Ok(()));
}

/// M4: options of the store that nobody asked for would have no effect, and are refused.
#[tokio::test(start_paused = true)]
async fn store_options_that_nobody_asked_for_are_refused() {
    let stage = Stage::set();
    let settings = Settings::from_toml("store.prefix = \"shop_\"").unwrap();

    let error = stage.outbox().settings(settings.clone()).start().unwrap_err();
    assert_eq!(
        error.to_string(),
        "`store.prefix` is set: the store was made without it; give it what `Settings::store` answers, or leave it out (`store.prefix` comes from line 1, column 16)"
    );

    assert_eq!(settings.store().prefix.as_deref(), Some("shop_"));
    let other = Settings::from_toml("store.schema = \"shop\"").unwrap();
    assert!(
        stage.outbox().settings(settings.clone().merge(other)).start().is_err(),
        "the other was not asked for"
    );
    assert!(stage.outbox().settings(settings).poll_every(HOUR).heartbeat_every(SECOND).start().is_ok());
}
