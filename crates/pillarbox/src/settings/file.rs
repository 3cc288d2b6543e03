//! Options from TOML.

use std::path::{Path, PathBuf};

use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

use super::tree::{self, Entry, Node};
use super::value::Raw;
use super::{Origin, Settings, SettingsError};

impl Settings {
    /// Reads a file of options, in TOML.
    pub fn from_file(file: impl Into<PathBuf>) -> Result<Self, SettingsError> {
        Self::read(file.into(), None)
    }

    /// Reads one table of a file that has others, too, which are none of our business: `outbox` or `outbox.orders`.
    pub fn from_table_in_file(file: impl Into<PathBuf>, table: &str) -> Result<Self, SettingsError> {
        Self::read(file.into(), Some(table))
    }

    /// Reads options in TOML.
    ///
    /// ```
    /// use pillarbox::Settings;
    ///
    /// let settings = Settings::from_toml(
    ///     r#"
    ///     poll_every = "2s"
    ///     retry = { kind = "exponential", initial = "100ms", max_attempts = 5 }
    ///     "#,
    /// )?;
    ///
    /// let error = Settings::from_toml("workres = 8").unwrap_err();
    /// assert_eq!(error.to_string(), "line 1, column 1: unknown option `workres`; did you mean `workers`?");
    /// # Ok::<(), pillarbox::SettingsError>(())
    /// ```
    pub fn from_toml(text: &str) -> Result<Self, SettingsError> {
        Document { file: None, text }.settings(None)
    }

    /// Reads one table of a text in TOML that has others, too.
    pub fn from_table_in_toml(text: &str, table: &str) -> Result<Self, SettingsError> {
        Document { file: None, text }.settings(Some(table))
    }

    fn read(file: PathBuf, table: Option<&str>) -> Result<Self, SettingsError> {
        match std::fs::read_to_string(&file) {
            Ok(text) => Document { file: Some(&file), text: &text }.settings(table),
            Err(source) => Err(SettingsError::Unreadable { file, source }),
        }
    }
}

/// A text that is being read.
struct Document<'t> {
    file: Option<&'t Path>,
    text: &'t str,
}

impl Document<'_> {
    fn settings(&self, table: Option<&str>) -> Result<Settings, SettingsError> {
        let root = DeTable::parse(self.text).map_err(|error| self.syntax(&error))?;
        let mut found = root.get_ref();
        for name in table.into_iter().flat_map(|table| table.split('.')) {
            let inner = found.get(name).and_then(|value| value.get_ref().as_table());
            found = inner.ok_or_else(|| SettingsError::NoSuchTable {
                file: self.file.map(Path::to_owned),
                section: table.unwrap_or_default().to_owned(),
            })?;
        }
        let mut settings = Settings::default();
        tree::take_all(&mut settings, "", entries(found), &|at| self.origin(at))?;
        Ok(settings)
    }

    /// The text itself is left out: it may have a password in it.
    fn syntax(&self, error: &toml::de::Error) -> SettingsError {
        let at = error.span().map_or(0, |span| span.start);
        SettingsError::Syntax { origin: self.origin(at), reason: error.message().to_owned() }
    }

    fn origin(&self, at: usize) -> Origin {
        let before = self.text.get(..at).unwrap_or(self.text);
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        Origin::Text { file: self.file.map(Path::to_owned), line, column }
    }
}

fn entries(table: &DeTable<'_>) -> Vec<Entry> {
    let entry = |(key, value): (&Spanned<DeString<'_>>, &Spanned<DeValue<'_>>)| Entry {
        name: key.get_ref().to_string(),
        name_at: key.span().start,
        node: match value.get_ref() {
            DeValue::Table(table) => Node::Table(entries(table)),
            leaf => Node::Leaf(raw(leaf)),
        },
        node_at: value.span().start,
    };
    table.iter().map(entry).collect()
}

fn raw(value: &DeValue<'_>) -> Raw {
    match value {
        DeValue::String(text) => Raw::Text(text.to_string()),
        DeValue::Integer(number) => {
            let value = i64::from_str_radix(number.as_str(), number.radix()).ok();
            Raw::Integer { text: number.to_string(), value }
        }
        DeValue::Float(number) => number.as_str().parse().map_or(Raw::Other("float"), Raw::Float),
        DeValue::Boolean(flag) => Raw::Flag(*flag),
        DeValue::Array(items) => Raw::List(items.iter().map(|item| raw(item.get_ref())).collect()),
        DeValue::Datetime(_) | DeValue::Table(_) => Raw::Other(value.type_str()),
    }
}
