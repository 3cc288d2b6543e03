//! Options from the environment.

use std::ffi::{OsStr, OsString};

use super::option::{self, OPTIONS, Opt};
use super::value::Raw;
use super::{Origin, Settings, SettingsError, hint_for, nearest_option};

/// Variables with our prefix that are for other programs of this project.
const OTHERS: [&str; 5] = ["CONFIG", "DB", "RELAY", "SEED", "SEEDS"];

/// What the names of such variables begin with.
const OTHERS_BEGIN: [&str; 2] = ["TEST_", "SERVICES_"];

/// What the names of variables begin with that belong to a table of options, and to nobody else.
const TABLES: [&str; 2] = ["RETRY_", "STORE_"];

impl Settings {
    /// The prefix of variables unless you choose another.
    pub const PREFIX: &str = "PILLARBOX_";

    /// Reads the variables of this process that begin with `PILLARBOX_`; see [`from_vars`](Self::from_vars).
    pub fn from_env() -> Result<Self, SettingsError> {
        Self::from_env_with(Self::PREFIX)
    }

    /// Reads the variables of this process that begin with `prefix`; with several outboxes in a process each can have its
    /// own.
    pub fn from_env_with(prefix: &str) -> Result<Self, SettingsError> {
        Self::from_vars(prefix, std::env::vars_os())
    }

    /// Reads variables that begin with `prefix`.
    ///
    /// The name of a variable is the prefix and the name of the option in capital letters, with `_` for `.`:
    /// `PILLARBOX_RETRY_MAX_ATTEMPTS` is `retry.max_attempts`. Lists are separated by commas. An empty variable counts as
    /// none.
    ///
    /// A variable that is nearly an option of more than five letters, or begins like a table of options (`PILLARBOX_RETRY_`), is an error. Any other
    /// with the prefix is named in a warning and left alone, for it may be another program's; those of the programs and
    /// tests of Pillarbox itself (`PILLARBOX_DB`, `PILLARBOX_TEST_…`) are not even that.
    ///
    /// ```
    /// use pillarbox::Settings;
    ///
    /// let settings = Settings::from_vars("ORDERS_", [("ORDERS_POLL_EVERY", "2s"), ("PATH", "/bin")])?;
    /// assert_eq!(settings.options()[0].value.as_deref(), Some("\"2s\""));
    /// # Ok::<(), pillarbox::SettingsError>(())
    /// ```
    pub fn from_vars<N, V>(
        prefix: &str,
        variables: impl IntoIterator<Item = (N, V)>,
    ) -> Result<Self, SettingsError>
    where
        N: Into<OsString>,
        V: Into<OsString>,
    {
        let mut settings = Self::default();
        let mut strangers = Vec::new();
        // In their order, so that of several errors always the same is told.
        let mut variables: Vec<(OsString, OsString)> =
            variables.into_iter().map(|(name, value)| (name.into(), value.into())).collect();
        variables.sort();
        for (name, value) in &variables {
            // A name that is no text is none of ours.
            let Some(name) = name.to_str() else { continue };
            let Some(rest) = name.strip_prefix(prefix).filter(|_| !value.is_empty()) else { continue };
            match OPTIONS.iter().find(|option| in_capitals(option.name) == rest) {
                Some(option) => settings.insert_variable(option, name, value)?,
                None if is_for_others(rest) => {}
                None => match misspelt(prefix, name, rest) {
                    Some(error) => return Err(error),
                    None => strangers.push(name.to_owned()),
                },
            }
        }
        if !strangers.is_empty() {
            let names = strangers.join(", ");
            tracing::warn!(names, "these variables are no options of an outbox, and are left alone");
        }
        Ok(settings)
    }

    fn insert_variable(
        &mut self,
        option: &'static Opt,
        name: &str,
        value: &OsStr,
    ) -> Result<(), SettingsError> {
        let origin = Origin::Variable { name: name.to_owned() };
        let Some(text) = value.to_str() else {
            let (value, remedy) = ("not shown".to_owned(), "it must be text in UTF-8".to_owned());
            return Err(SettingsError::Invalid { option: option.name, value, remedy, origin });
        };
        self.insert(option, Raw::Variable(text.to_owned()), origin)
    }
}

/// How an option is called as a variable, without the prefix.
fn in_capitals(option: &str) -> String {
    option.replace('.', "_").to_ascii_uppercase()
}

fn is_for_others(rest: &str) -> bool {
    OTHERS.contains(&rest) || OTHERS_BEGIN.iter().any(|begin| rest.starts_with(begin))
}

/// The answer to a variable that was meant for an option.
fn misspelt(prefix: &str, name: &str, rest: &str) -> Option<SettingsError> {
    let table = TABLES.into_iter().find(|table| rest.starts_with(table));
    let lower = rest.to_ascii_lowercase();
    let option = if table.is_some() { lower.replacen('_', ".", 1) } else { lower };
    let is_ours = table.is_some() || option::refused(&option).is_some() || is_nearly_an_option(&option);
    is_ours.then(|| SettingsError::Unknown {
        name: name.to_owned(),
        origin: Origin::Variable { name: name.to_owned() },
        hint: hint_for(&option, |option| format!("{prefix}{}", in_capitals(option))),
    })
}

/// Whether an option must be meant. Where that is a short word it cannot be said: `NODE` and `HOME` are no `MODE`.
fn is_nearly_an_option(word: &str) -> bool {
    nearest_option(word).is_some_and(|option| option.len() > 5)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// M4: no two options have one variable, none has that of another program, and every table is known.
    #[test]
    fn every_option_has_a_variable_of_its_own() {
        let names: BTreeSet<String> = OPTIONS.iter().map(|option| in_capitals(option.name)).collect();

        assert_eq!(names.len(), OPTIONS.len());
        assert!(!names.iter().any(|name| is_for_others(name)));
        for option in OPTIONS.iter().filter(|option| option.name.contains('.')) {
            let table = in_capitals(option.name);
            assert!(TABLES.iter().any(|known| table.starts_with(known)), "{}", option.name);
        }
    }
}
