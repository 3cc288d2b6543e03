//! The log of a relay.

use pillarbox::spelling::nearest;
use tracing::Level;
use tracing_subscriber::filter::{LevelFilter, filter_fn};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Registry, fmt, reload};

use super::config::{LogFormat, LogTable};

/// What is logged unless the file or `RUST_LOG` says otherwise.
const LEVEL: &str = "info";
/// The words for levels.
const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];
/// What the names of our own crates begin with.
const OURS: &str = "pillarbox";
/// The most that libraries of others log, whatever is asked for: at `trace` they show what they send, and lapin the frame
/// with the password in it.
const OTHERS: Level = Level::DEBUG;

/// The log of this process, whose level can be changed.
pub(crate) struct Log {
    filter: reload::Handle<EnvFilter, Registry>,
    /// Whether `RUST_LOG` decides.
    is_by_variable: bool,
}

impl Log {
    /// Sends the log to stderr. `RUST_LOG` wins over the file.
    pub(crate) fn start(table: &LogTable) -> Self {
        let by_variable = EnvFilter::try_from_default_env().ok();
        let is_by_variable = by_variable.is_some();
        let (filter, handle) = reload::Layer::new(by_variable.unwrap_or_else(|| filter(table)));
        let others = filter_fn(|metadata| metadata.target().starts_with(OURS) || *metadata.level() <= OTHERS);
        let log = tracing_subscriber::registry().with(filter).with(others);
        let lines = fmt::layer().with_writer(std::io::stderr);
        match table.format {
            LogFormat::Text => log.with(lines).init(),
            LogFormat::Json => log.with(lines.json().flatten_event(true)).init(),
        }
        Self { filter: handle, is_by_variable }
    }

    /// Logs from now on as this says, unless `RUST_LOG` decides.
    pub(crate) fn set(&self, table: &LogTable) {
        if !self.is_by_variable {
            // It fails if the log is gone, and nobody could be told.
            let _ = self.filter.reload(filter(table));
        }
    }
}

fn filter(table: &LogTable) -> EnvFilter {
    EnvFilter::new(table.level.as_ref().map_or(LEVEL, |level| level.get_ref()))
}

/// What is wrong with a level, or with several for parts of the program, as in `info,pillarbox=debug`.
pub(crate) fn check(level: &str) -> Result<(), String> {
    for part in level.split(',').map(str::trim) {
        let word = part.rsplit_once('=').map_or(part, |(_, word)| word).trim();
        if word.parse::<LevelFilter>().is_err() || !LEVELS.contains(&word.to_lowercase().as_str()) {
            let hint = match nearest(word, &LEVELS) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("known are `{}`", LEVELS.join("`, `")),
            };
            return Err(format!("`{word}` is no level; {hint}"));
        }
    }
    EnvFilter::try_new(level).map(drop).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// M4: a misspelt level is answered, for it would be taken for the name of a part of the program.
    #[test]
    fn levels_are_checked() {
        for level in ["info", "OFF", "warn,pillarbox=trace", "info,pillarbox_kafka=debug"] {
            assert_eq!(check(level), Ok(()), "{level}");
        }
        for (level, expected) in [
            ("inof", "`inof` is no level; did you mean `info`?"),
            ("info,pillarbox=debgu", "`debgu` is no level; did you mean `debug`?"),
            ("17", "`17` is no level; known are `off`"),
            ("", "`` is no level; "),
        ] {
            let error = check(level).unwrap_err();
            assert!(error.starts_with(expected), "{level}: {error}");
        }
    }
}
