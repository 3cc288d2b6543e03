//! Options from a file and from the environment.

#[cfg(feature = "toml")]
mod file;
mod option;
mod store;
mod template;
mod tree;
mod value;
mod variables;

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

pub(crate) use option::Draft;
use option::{OPTIONS, Opt};
pub use store::StoreSettings;
use value::Raw;

use crate::config::ConfigError;
use crate::spelling::nearest;

/// Options of an outbox from a file, from the environment, or from both; given to
/// [`OutboxBuilder::settings`](crate::OutboxBuilder::settings).
///
/// What the program sets itself wins, whichever call comes first; then the environment, then files and texts, of which
/// the one that is [merged](Self::merge) last wins; then the default. Every option of the builder that is a plain value
/// can be set, under the name of its setter; [`template`](Self::template) prints all of them.
///
/// Files are read with the feature `toml`. In any other format settings are deserialized as a part of a configuration of
/// yours; they count like a file then.
///
/// ```
/// use pillarbox::{MemoryStore, Outbox, Settings};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let variables = [("PILLARBOX_WORKERS", "16")];
/// let settings = Settings::from_vars("PILLARBOX_", variables)?;
/// let outbox = Outbox::builder(MemoryStore::new()).settings(settings).start()?;
/// # outbox.close().await;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Default)]
#[must_use = "settings do nothing until they are given to an outbox"]
pub struct Settings {
    values: BTreeMap<&'static str, (Raw, Origin)>,
    /// Whether somebody asked for the options of the store.
    is_store_asked_for: Arc<AtomicBool>,
}

/// Where the value of an option comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Origin {
    /// Nobody set it.
    Default,
    /// A file, or a text that has none; lines and columns are counted from 1.
    Text {
        /// The file.
        file: Option<PathBuf>,
        /// The line.
        line: usize,
        /// The column, in characters.
        column: usize,
    },
    /// A configuration of the program's, which the settings were deserialized from as a part.
    Embedded,
    /// A variable of the environment.
    Variable {
        /// Its name.
        name: String,
    },
    /// A call of the program.
    Program,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("the default"),
            Self::Text { file: Some(file), line, column } => {
                write!(f, "`{}`, line {line}, column {column}", file.display())
            }
            Self::Text { file: None, line, column } => write!(f, "line {line}, column {column}"),
            Self::Embedded => f.write_str("the configuration of the program"),
            Self::Variable { name } => write!(f, "the variable `{name}`"),
            Self::Program => f.write_str("the program"),
        }
    }
}

/// Where the options come from that were not set by the program.
pub(crate) type Origins = BTreeMap<&'static str, Origin>;

/// A file or the environment holds what cannot be understood.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SettingsError {
    /// The file cannot be read.
    #[error("the settings `{}` cannot be read", file.display())]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// What the operating system says.
        #[source]
        source: std::io::Error,
    },
    /// The text is no TOML.
    #[error("{origin}: this is no TOML: {reason}")]
    Syntax {
        /// Where it went wrong.
        origin: Origin,
        /// What was expected.
        reason: String,
    },
    /// There is no such table in the file.
    #[error("{}there is no table `{section}`", file.as_ref().map(|file| format!("`{}`: ", file.display())).unwrap_or_default())]
    NoSuchTable {
        /// The file.
        file: Option<PathBuf>,
        /// The table.
        section: String,
    },
    /// There is no such option.
    #[error("{origin}: unknown option `{name}`; {hint}")]
    Unknown {
        /// What was written.
        name: String,
        /// Where.
        origin: Origin,
        /// What may have been meant.
        hint: String,
    },
    /// An option has a value that it cannot have.
    #[error("{origin}: `{option}` is {value}: {remedy}")]
    Invalid {
        /// The option.
        option: &'static str,
        /// The value, unless it is secret.
        value: String,
        /// What would work.
        remedy: String,
        /// Where it was set.
        origin: Origin,
    },
}

/// One option as an outbox will have it; see [`OutboxBuilder::effective`](crate::OutboxBuilder::effective).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct EffectiveOption {
    /// Its name.
    pub name: &'static str,
    /// Its value as it would stand in a file; `None` if it has none.
    pub value: Option<String>,
    /// Where it comes from.
    pub origin: Origin,
}

/// Two ways to say one thing: who says it the one way takes back what was said the other way with less weight.
const SAME_THING: [[&str; 2]; 2] =
    [["retry.max_attempts", "retry.max_retries"], ["store.url", "store.url_file"]];

/// The ways to say what this option says.
fn rivals(name: &'static str) -> [&'static str; 2] {
    SAME_THING.into_iter().find(|pair| pair.contains(&name)).unwrap_or([name; 2])
}

impl Settings {
    /// Adds what `other` says. Variables win over files and texts whichever is merged first; of two files, and of two
    /// sets of variables, the later wins.
    pub fn merge(mut self, other: Self) -> Self {
        let is_asked_for =
            [&self, &other].iter().all(|one| one.is_store_asked_for() || !one.has_store_options());
        for (name, (raw, origin)) in other.values {
            let rivals = rivals(name);
            let outweighs = |rival: &&str| {
                self.values.get(*rival).is_some_and(|(_, there)| weight(there) > weight(&origin))
            };
            if !rivals.iter().any(outweighs) {
                self.values.retain(|there, _| !rivals.contains(there));
                self.values.insert(name, (raw, origin));
            }
        }
        self.is_store_asked_for = Arc::new(AtomicBool::new(is_asked_for));
        self
    }

    /// The options of the store, which is made before the outbox: give them to it. Where a file or the environment sets
    /// one of them and nobody has asked, [`start`](crate::OutboxBuilder::start) refuses, for it would have no effect.
    pub fn store(&self) -> StoreSettings {
        self.is_store_asked_for.store(true, Ordering::Relaxed);
        self.draft().store
    }

    /// What an outbox would refuse of these settings, as far as that can be said without the outbox: kinds of errors,
    /// for example, are known to its builder only.
    pub fn check(&self) -> Result<(), ConfigError> {
        let draft = self.draft();
        let checked = draft.config.within_reach().check().and_then(|()| draft.retry.policy().map(drop));
        checked.map_err(|error| error.with_origins(&self.origins(), &[]))
    }

    /// All options with their defaults and what they mean, as a file to start from.
    pub fn template() -> String {
        template::print()
    }

    /// Each option that is set here, its value as it would stand in a file, unless it is secret, and where it is set.
    pub fn options(&self) -> Vec<EffectiveOption> {
        let draft = self.draft();
        let set = OPTIONS.iter().filter_map(|option| Some((option, self.values.get(option.name)?)));
        let shown = set.map(|(option, (_, origin))| option.effective(&draft, origin.clone()));
        shown.collect()
    }

    /// The settings over the defaults.
    fn draft(&self) -> Draft {
        let mut draft = Draft::default();
        self.apply(&mut draft, |_| false);
        draft
    }

    /// Sets what is not `kept`.
    pub(crate) fn apply(&self, draft: &mut Draft, kept: impl Fn(&str) -> bool) {
        for option in OPTIONS.iter().filter(|option| !kept(option.name)) {
            if let Some((raw, _)) = self.values.get(option.name) {
                // It was understood when it was read.
                let _ = (option.set)(draft, raw);
            }
        }
    }

    pub(crate) fn origins(&self) -> Origins {
        self.values.iter().map(|(name, (_, origin))| (*name, origin.clone())).collect()
    }

    /// Options of the store that would have no effect, because the store was made without asking for them.
    pub(crate) fn check_store(&self) -> Result<(), ConfigError> {
        let unheard = self.values.keys().find(|name| is_of_store(name));
        let Some(name) = unheard.filter(|_| !self.is_store_asked_for()) else { return Ok(()) };
        let remedy = "the store was made without it; give it what `Settings::store` answers, or leave it out";
        Err(ConfigError::invalid(name, "set", remedy).with_origins(&self.origins(), &[]))
    }

    fn is_store_asked_for(&self) -> bool {
        self.is_store_asked_for.load(Ordering::Relaxed)
    }

    fn has_store_options(&self) -> bool {
        self.values.keys().any(|name| is_of_store(name))
    }

    /// Takes one option of a source, if it can be understood.
    fn insert(&mut self, option: &'static Opt, raw: Raw, origin: Origin) -> Result<(), SettingsError> {
        let invalid = |remedy: String| SettingsError::Invalid {
            option: option.name,
            value: if option.is_secret { "not shown".to_owned() } else { raw.to_string() },
            remedy,
            origin: origin.clone(),
        };
        (option.set)(&mut Draft::default(), &raw).map_err(|remedy| match option.hint {
            hint if !hint.is_empty() && raw.is_negative() => invalid(format!("{remedy}; {hint}")),
            _ => invalid(remedy),
        })?;
        let other = rivals(option.name)
            .into_iter()
            .find(|other| *other != option.name && self.values.contains_key(other));
        if let Some(other) = other {
            let there = &self.values[other].1;
            return Err(invalid(format!("`{other}` is set too, in {there}; choose one of them")));
        }
        self.values.insert(option.name, (raw, origin));
        Ok(())
    }
}

/// What comes from a source with more weight wins.
fn weight(origin: &Origin) -> u8 {
    match origin {
        Origin::Default => 0,
        Origin::Text { .. } | Origin::Embedded => 1,
        Origin::Variable { .. } => 2,
        Origin::Program => 3,
    }
}

fn is_of_store(name: &str) -> bool {
    name.starts_with("store.")
}

/// What to say about a name that is no option; `spelt` is how names are written where it stands.
fn hint_for(name: &str, spelt: impl Fn(&str) -> String) -> String {
    if let Some(hint) = option::refused(name) {
        return hint.to_owned();
    }
    match nearest_option(name) {
        Some(option) => format!("did you mean `{}`?", spelt(option)),
        None => "`Settings::template` prints all options".to_owned(),
    }
}

/// The option that is called so elsewhere, or whose name is spelt nearly so.
fn nearest_option(name: &str) -> Option<&'static str> {
    let known: Vec<&str> = OPTIONS.iter().map(|option| option.name).collect();
    option::called_elsewhere(name).map(|option| option.name).or_else(|| nearest(name, &known)).or_else(|| {
        // The right name in the wrong table, or in none.
        let last = name.rsplit('.').next().unwrap_or(name);
        OPTIONS.iter().map(|option| option.name).find(|known| known.rsplit('.').next() == Some(last))
    })
}

/// What the options of a builder are and where they come from; `by_program` are those that it set itself.
pub(crate) fn effective(
    draft: &Draft,
    settings: &Settings,
    by_program: impl Fn(&str) -> bool,
) -> Vec<EffectiveOption> {
    let origin = |name| match settings.values.get(name) {
        _ if by_program(name) => Origin::Program,
        Some((_, origin)) => origin.clone(),
        None => Origin::Default,
    };
    OPTIONS.iter().map(|option| option.effective(draft, origin(option.name))).collect()
}

impl fmt::Debug for Settings {
    /// Leaves out what is secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let options = self.options();
        let shown = options.iter().map(|option| (option.name, (&option.value, &option.origin)));
        f.debug_map().entries(shown).finish()
    }
}
