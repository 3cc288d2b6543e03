//! The one list of all options that files and variables can set.

use super::store::StoreSettings;
use super::value::{Raw, Setting, read_size, shown_size};
use super::{EffectiveOption, Origin};
use crate::config::Config;
use crate::retry::RetryConfig;

/// Everything that options can change.
#[derive(Clone, Debug, Default)]
pub(crate) struct Draft {
    pub(crate) config: Config,
    pub(crate) retry: RetryConfig,
    pub(crate) store: StoreSettings,
}

/// One option.
pub(crate) struct Opt {
    /// As the setter is called; behind the name of its table, if it is in one.
    pub(super) name: &'static str,
    /// What it means, for the template.
    pub(super) about: &'static str,
    /// A value for the template where nothing is the default.
    pub(super) example: &'static str,
    /// What others call it.
    pub(super) elsewhere: &'static [&'static str],
    /// What to say besides, when a value is negative.
    pub(super) hint: &'static str,
    pub(super) is_secret: bool,
    pub(super) set: fn(&mut Draft, &Raw) -> Result<(), String>,
    /// As it is written in TOML; nothing if it is not set.
    pub(super) shown: fn(&Draft) -> Option<String>,
}

impl Opt {
    pub(super) fn effective(&self, draft: &Draft, origin: Origin) -> EffectiveOption {
        let value = (self.shown)(draft);
        let value = if self.is_secret { value.map(|_| "\"…\"".to_owned()) } else { value };
        EffectiveOption { name: self.name, value, origin }
    }
}

/// An option of a type that is a [`Setting`], by its place in the draft.
macro_rules! option {
    ($name:literal, $($place:ident).+, $about:literal $(, $key:ident = $value:expr)* $(,)?) => {
        Opt {
            $($key: $value,)*
            ..Opt {
                name: $name,
                about: $about,
                example: "",
                elsewhere: &[],
                hint: "",
                is_secret: false,
                set: |draft, raw| {
                    draft.$($place).+ = Setting::read(raw)?;
                    Ok(())
                },
                shown: |draft| Setting::shown(&draft.$($place).+),
            }
        }
    };
}

/// All options, in the order of the template. A field of [`Config`] without a line here fails a test.
pub(crate) const OPTIONS: &[Opt] = &[
    option!(
        "enabled",
        config.enabled,
        "Whether the outbox does anything. If not, nothing is delivered, polled or registered, and writing fails.",
        elsewhere = &["outbox.enabled"],
    ),
    option!(
        "discard_when_disabled",
        config.discard_when_disabled,
        "Whether a disabled outbox takes events and throws them away, with one warning, instead of failing.",
    ),
    option!(
        "name",
        config.name,
        "The name of this instance, unique by your promise; generated if not given.",
        example = "\"orders-1\"",
        elsewhere = &["owner-id"],
    ),
    option!("topology", config.topology, "Which parts run: \"full\", \"poller_only\" or \"writer_only\".",),
    option!(
        "workers",
        config.workers,
        "How many listeners, or runs for a sink, run at once.",
        elsewhere = &["processing.executor-core-pool-size"],
        hint = "there is no maximum beside it, and -1 for as many as there are events does not exist: set `workers` to what may run at once",
    ),
    option!("hot_queue", config.hot_queue, "How many committed events wait in memory."),
    option!("cold_queue", config.cold_queue, "How many events from the table wait in memory."),
    option!("delivery_timeout", config.delivery_timeout, "How long a listener, or a run, may take."),
    option!("margin", config.margin, "What a lease must exceed the delivery by."),
    option!(
        "drain_timeout",
        config.drain_timeout,
        "How long closing waits for listeners that run, before it cuts them off.",
    ),
    option!(
        "shutdown_timeout",
        config.shutdown_timeout,
        "How long closing takes at most, waiting for listeners included; 15 s, or drain_timeout and 10 s, if not given.",
        example = "\"15s\"",
        elsewhere = &["instance.graceful-shutdown-timeout-seconds"],
    ),
    option!(
        "max_starts",
        config.max_starts,
        "How often the process may die over an event before the event is dead.",
    ),
    option!("run_events", config.run_events, "The most events in a run for a sink."),
    option!(
        "run_bytes",
        config.run_bytes,
        "The most bytes of payload in a run for a sink.",
        set = |draft, raw| {
            draft.config.run_bytes = read_size(raw)?;
            Ok(())
        },
        shown = |draft| shown_size(draft.config.run_bytes),
    ),
    option!(
        "sink_pause",
        config.sink_pause,
        "How long a sink that is down is left alone at first; twice as long each further time.",
    ),
    option!(
        "longest_sink_pause",
        config.longest_sink_pause,
        "How long a sink that is down is left alone at most."
    ),
    option!(
        "in_flight_ttl",
        config.in_flight_ttl,
        "Forget that an event is queued or running here after this time; never if not given.",
        example = "\"10m\"",
    ),
    option!(
        "unroutable",
        config.unroutable,
        "What becomes of an event without a listener: \"dead\" or \"hold\".",
    ),
    option!(
        "poll_every",
        config.poll_every,
        "How long the poller sleeps when nothing is due and nothing wakes it.",
        elsewhere = &["poll-interval", "interval"],
    ),
    option!(
        "batch_size",
        config.batch_size,
        "How many events the first take asks for; while takes come back full it doubles.",
        elsewhere = &["batch-size"],
    ),
    option!(
        "max_batch",
        config.max_batch,
        "The most events in one take; the room of the cold queue if not given.",
        example = "500",
    ),
    option!("skip_recent", config.skip_recent, "Leave events alone that were written less than this ago."),
    option!(
        "lease_for",
        config.lease_for,
        "How long taken events belong to this instance.",
        elsewhere = &["lock-timeout"],
    ),
    option!(
        "mode",
        config.mode,
        "How work is taken: \"claims\" or \"ownership\"; if not given, as order needs it.",
        example = "\"claims\"",
    ),
    option!(
        "ordered",
        config.is_ordered,
        "Whether the events of one key are delivered one after the other, in the order of their commits.",
    ),
    option!(
        "stop_on_first_failure",
        config.stop_on_first_failure,
        "Whether events wait for one of their key that failed and is to be tried again.",
        elsewhere = &["processing.stop-on-first-failure"],
    ),
    option!(
        "on_dead_head",
        config.dead_head,
        "What a dead event means for those of its key that follow it: \"release\" or \"park\".",
    ),
    option!(
        "heartbeat_every",
        config.heartbeat_every,
        "How often this instance says that it is alive.",
        elsewhere = &["instance.heartbeat-interval-seconds"],
    ),
    option!(
        "silent_after",
        config.silent_after,
        "After which silence an instance counts as dead.",
        elsewhere = &["instance.stale-instance-timeout-seconds"],
    ),
    option!(
        "rebalance_every",
        config.rebalance_every,
        "How often an instance gives up partitions that are not in its share.",
        elsewhere = &["rebalance-interval"],
    ),
    option!(
        "publish_after_save",
        config.publish_after_save,
        "Whether subscribers in this process are told of events inside the transaction.",
        elsewhere = &["processing.publish-after-save"],
    ),
    option!(
        "store_events",
        config.store_events,
        "Whether events are stored; if not, subscribers alone get them.",
        elsewhere = &["multicaster.enabled"],
    ),
    option!(
        "delete_done",
        config.done,
        "Whether events are deleted when they are done.",
        elsewhere = &["processing.delete-completed-records"],
    ),
    option!(
        "keep_done_for",
        config.keep_done_for,
        "Delete done events after this time; they are kept for ever if not given.",
        example = "\"7d\"",
    ),
    option!(
        "retry.kind",
        retry.kind,
        "\"default\" (exponential from 200 ms, each delay times 0.5 to 1.5), \"exponential\" (from 1 s) or \"fixed\" (5 s).",
        elsewhere = &["retry.policy", "retry.jittered.base-policy"],
    ),
    option!(
        "retry.initial",
        retry.initial,
        "The delay after the first failure, and with \"fixed\" after each; as the kind says if not given.",
        example = "\"200ms\"",
        elsewhere = &["retry.exponential.initial-delay", "retry.fixed.delay", "retry.base", "retry.delay"],
    ),
    option!(
        "retry.max",
        retry.max,
        "The longest delay, before randomness; 60 s if not given. Not with \"fixed\".",
        example = "\"60s\"",
        elsewhere = &["retry.exponential.max-delay"],
    ),
    option!(
        "retry.multiplier",
        retry.multiplier,
        "What each further delay is multiplied by; 2.0 if not given. Not with \"fixed\".",
        example = "2.0",
        elsewhere = &["retry.exponential.multiplier"],
    ),
    option!(
        "retry.jitter",
        retry.jitter,
        "The most that is added to each delay, at random.",
        elsewhere = &["retry.jittered.jitter"],
    ),
    option!(
        "retry.spread",
        retry.spread,
        "Whether each delay is multiplied by 0.5 to 1.5, at random; with the kind \"default\" if not given.",
        example = "true",
    ),
    option!(
        "retry.max_attempts",
        retry.max_attempts,
        "Deliveries in all: an event that failed this often is dead; 10 if not given. Instead of max_retries.",
        example = "10",
    ),
    option!(
        "retry.max_retries",
        retry.max_retries,
        "Deliveries after the first; 9 if not given. Instead of max_attempts.",
        example = "9",
        elsewhere = &["retry.max-retries"],
    ),
    option!(
        "retry.only",
        retry.only,
        "Kinds of errors that are retried, and no others: \"timeout\", \"io\", \"panic\", and those of the program.",
        elsewhere = &["retry.include-exceptions", "retry.include"],
    ),
    option!(
        "retry.never",
        retry.never,
        "Kinds of errors that are never retried; where both lists are given, only decides.",
        elsewhere = &["retry.exclude-exceptions", "retry.exclude"],
    ),
    option!(
        "store.url",
        store.url,
        "Where the database is, for programs that choose it at run time. Better in a variable, for its password.",
        example = "\"sqlite:orders.db\"",
        is_secret = true,
    ),
    option!(
        "store.url_file",
        store.url_file,
        "A file that has the URL in it, so that its password need not stand here. Instead of url.",
        example = "\"/run/secrets/orders-db\"",
    ),
    option!(
        "store.schema",
        store.schema,
        "The schema of the outbox tables.",
        example = "\"shop\"",
        elsewhere = &["jdbc.schema-name"],
    ),
    option!(
        "store.prefix",
        store.prefix,
        "What stands before the names of all tables.",
        example = "\"shop_\"",
        elsewhere = &["jdbc.table-prefix"],
    ),
    option!(
        "store.migrate",
        store.migrate,
        "Whether tables are created, and brought up to date, before the outbox is started.",
        elsewhere = &["jdbc.schema-initialization.enabled"],
    ),
    option!(
        "store.max_connections",
        store.max_connections,
        "The most connections for transactions of the program; 10 if not given.",
        example = "10",
    ),
    option!(
        "store.create_if_missing",
        store.create_if_missing,
        "Whether a SQLite file that does not exist is created; true if not given.",
        example = "true",
    ),
    option!(
        "store.wake_up",
        store.wake_up,
        "Whether events of other processes are noticed before the next poll, where the database can do it.",
        example = "true",
    ),
    option!(
        "store.lock_timeout",
        store.lock_timeout,
        "How long the store waits for what others have locked; 5 s if not given.",
        example = "\"5s\"",
    ),
    option!(
        "store.longest_transaction",
        store.longest_transaction,
        "How long transactions that write events stay open, on MySQL and MariaDB with owned partitions; 10 s if not given.",
        example = "\"10s\"",
    ),
];

/// What others have and there is not here, with what to do instead.
const REFUSED: [(&str, &str); 3] = [
    (
        "processing.executor-max-pool-size",
        "there is no maximum pool size: set `workers`, as many listeners run at once",
    ),
    ("max_workers", "there is no maximum pool size: set `workers`, as many listeners run at once"),
    (
        "processing.executor-concurrency-limit",
        "the limit is `workers`, and there is none without a limit (-1): set `workers` to what may run at once",
    ),
];

/// What to do instead of an option that there is not.
pub(super) fn refused(name: &str) -> Option<&'static str> {
    REFUSED.iter().find(|(refused, _)| is_called(refused, name)).map(|(_, hint)| *hint)
}

/// The option that others call so.
pub(super) fn called_elsewhere(name: &str) -> Option<&'static Opt> {
    OPTIONS.iter().find(|option| option.elsewhere.iter().any(|other| is_called(other, name)))
}

/// Whether `name` is `other`, however words are joined, with or without its tables.
fn is_called(other: &str, name: &str) -> bool {
    let plain = |name: &str| name.replace(['-', '.'], "_").to_ascii_lowercase();
    let last = other.rsplit('.').next().unwrap_or(other);
    let name = plain(name);
    name == plain(other) || name == plain(last) && last.contains('-')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::value::Raw;

    /// Every field of the configuration, so that a new one does not compile until it stands here.
    fn fields(draft: &Draft) -> Vec<(&'static str, String)> {
        macro_rules! fields {
            ($type:ident, $from:expr, $($field:ident)*) => {{
                let $type { $($field),* } = &$from;
                vec![$((stringify!($field), format!("{:?}", $field))),*]
            }};
        }
        let config = fields!(Config, draft.config,
            enabled discard_when_disabled topology publish_after_save store_events name workers hot_queue cold_queue
            delivery_timeout margin drain_timeout shutdown_timeout batch_size max_batch poll_every skip_recent lease_for max_starts
            unroutable done keep_done_for run_events run_bytes in_flight_ttl sink_pause
            longest_sink_pause mode is_ordered stop_on_first_failure
            dead_head heartbeat_every silent_after rebalance_every);
        let retry = fields!(RetryConfig, draft.retry,
            kind initial max multiplier jitter spread max_attempts max_retries only never);
        let store = fields!(StoreSettings, draft.store,
            url url_file schema prefix migrate max_connections create_if_missing wake_up lock_timeout
            longest_transaction);
        [config, retry, store].concat()
    }

    /// Values of which at least one is another than an option has now.
    fn values() -> Vec<Raw> {
        let words =
            ["hold", "park", "ownership", "writer_only", "fixed", "true", "false", "17s", "17", "1.7"];
        words.into_iter().map(|word| Raw::Variable(word.to_owned())).collect()
    }

    /// M4: every plain value of the configuration can be set, each by an option of its own.
    #[test]
    fn every_field_has_an_option_of_its_own() {
        let before = fields(&Draft::default());
        let mut set: Vec<&str> = Vec::new();
        for option in OPTIONS {
            let changed = values().into_iter().find_map(|raw| {
                let mut draft = Draft::default();
                (option.set)(&mut draft, &raw).ok()?;
                let changes = fields(&draft).into_iter().zip(&before).filter(|(now, before)| now != *before);
                let names: Vec<&str> = changes.map(|((name, _), _)| name).collect();
                (!names.is_empty()).then_some(names)
            });
            let changed = changed.unwrap_or_default();
            assert_eq!(changed.len(), 1, "`{}` changes {changed:?}", option.name);
            set.extend(changed);
        }

        set.sort_unstable();
        let mut all: Vec<&str> = before.iter().map(|(name, _)| *name).collect();
        all.sort_unstable();
        assert_eq!(set, all);
    }

    /// M4: what others call an option leads to one that exists, and to one only.
    #[test]
    fn names_from_elsewhere_are_understood() {
        let meant = |name| called_elsewhere(name).map(|option| option.name);

        assert_eq!(meant("poll-interval"), Some("poll_every"));
        assert_eq!(meant("processing.delete-completed-records"), Some("delete_done"));
        assert_eq!(meant("delete_completed_records"), Some("delete_done"));
        assert_eq!(meant("retry.fixed.delay"), Some("retry.initial"));
        assert_eq!(meant("jdbc.schema-initialization.enabled"), Some("store.migrate"));
        assert!(
            refused("executor-max-pool-size").is_some()
                && refused("processing.executor-max-pool-size").is_some()
        );
    }
}
