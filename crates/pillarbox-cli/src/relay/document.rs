//! A configuration file, read such that every mistake can be pointed at.

use std::fmt;
use std::path::{Path, PathBuf};

use pillarbox::spelling::nearest;
use serde::de::DeserializeOwned;
use toml::Spanned;
use toml::de::{DeTable, DeValue, ValueDeserializer};

/// A mistake in a configuration: where it is, and what to do.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Mistake {
    pub(crate) file: PathBuf,
    /// Line and column, from 1 on; none if it is about the whole file.
    pub(crate) place: Option<(usize, usize)>,
    pub(crate) text: String,
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file.display())?;
        if let Some((line, column)) = self.place {
            write!(f, ", line {line}, column {column}")?;
        }
        write!(f, ": {}", self.text)
    }
}

impl std::error::Error for Mistake {}

/// The text of a configuration file.
pub(crate) struct Document {
    pub(crate) file: PathBuf,
    pub(crate) text: String,
}

impl Document {
    pub(crate) fn read(file: &Path) -> Result<Self, Mistake> {
        let mistake = |text: String| Mistake { file: file.to_owned(), place: None, text };
        let text = std::fs::read_to_string(file).map_err(|error| {
            let remedy = match error.kind() {
                std::io::ErrorKind::NotFound => {
                    "; `pillarbox config --print-defaults` prints one to start from"
                }
                _ => "",
            };
            mistake(format!("cannot be read: {error}{remedy}"))
        })?;
        Ok(Self { file: file.to_owned(), text })
    }

    pub(crate) fn parse(&self) -> Result<Spanned<DeTable<'_>>, Mistake> {
        DeTable::parse(&self.text).map_err(|error| self.explain(&error, ""))
    }

    /// A mistake that is about the whole file.
    pub(crate) fn whole(&self, text: &str) -> Mistake {
        Mistake { file: self.file.clone(), place: None, text: text.to_owned() }
    }

    /// A mistake at a place in the text.
    pub(crate) fn mistake(&self, at: usize, text: impl Into<String>) -> Mistake {
        let before = self.text.get(..at).unwrap_or(&self.text);
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        Mistake { file: self.file.clone(), place: Some((line, column)), text: text.into() }
    }

    /// Where the value of an option begins, in the tables of this path; the table itself without an option.
    pub(crate) fn place_of(&self, path: &[&str], option: &str) -> Option<usize> {
        let root = self.parse().ok()?;
        let mut names = path.iter().copied().chain(option.split('.').filter(|name| !name.is_empty()));
        let mut found = root.get_ref().get(names.next()?)?;
        for name in names {
            found = found.get_ref().get(name)?;
        }
        Some(found.span().start)
    }

    /// Reads a table, or another value; `name` is what it is called in errors.
    pub(crate) fn value<T: DeserializeOwned>(
        &self,
        name: &str,
        value: &Spanned<DeValue<'_>>,
    ) -> Result<T, Mistake> {
        T::deserialize(ValueDeserializer::from(value.clone())).map_err(|error| {
            let at = error.span().map_or(value.span().start, |span| span.start);
            self.mistake(at, explained(error.message(), name, key_at(value, at).as_deref()))
        })
    }

    fn explain(&self, error: &toml::de::Error, name: &str) -> Mistake {
        // The line itself is left out: there may be a password in it.
        let at = error.span().map_or(0, |span| span.start);
        self.mistake(at, explained(error.message(), name, None))
    }
}

/// The key, behind those of its tables, whose value is at this place of the text.
fn key_at(value: &Spanned<DeValue<'_>>, at: usize) -> Option<String> {
    let within = |key: &str, inner: Option<String>| match inner.as_deref() {
        Some("") => Some(key.to_owned()),
        Some(inner) => Some(format!("{key}.{inner}")),
        None => None,
    };
    match value.get_ref() {
        // The span of a table may be that of its header only.
        DeValue::Table(table) => {
            table.iter().find_map(|(key, value)| within(key.get_ref(), key_at(value, at)))
        }
        DeValue::Array(items) if items.iter().any(|item| item.get_ref().as_table().is_some()) => {
            items.iter().find_map(|item| key_at(item, at))
        }
        _ => value.span().contains(&at).then(String::new),
    }
}

/// What a parser says, in our words: a misspelt key is answered with the right one, and a text is not shown, for it may
/// be a secret.
fn explained(message: &str, within: &str, key: Option<&str>) -> String {
    let place = if within.is_empty() { String::new() } else { format!(" in `{within}`") };
    if let Some(rest) = message.strip_prefix("unknown field `")
        && let Some((key, expected)) = rest.split_once('`')
    {
        return unknown_key(key, &quoted(expected), &place);
    }
    if let Some(rest) = message.strip_prefix("missing field `")
        && let Some((key, _)) = rest.split_once('`')
    {
        return format!("`{key}` is missing{place}");
    }
    let message = match message
        .strip_prefix("invalid type: string ")
        .and_then(|rest| rest.rsplit_once(", expected "))
    {
        Some((_, expected)) => format!("invalid type: a text, expected {expected}"),
        None => message.to_owned(),
    };
    match key.filter(|key| !key.is_empty()) {
        Some(key) => format!("`{key}`{place}: {message}"),
        None => format!("{message}{place}"),
    }
}

/// The answer to a key that is not known, where `known` are.
pub(crate) fn unknown_key(key: &str, known: &[&str], place: &str) -> String {
    let hint = match nearest(key, known) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("known are `{}`", known.join("`, `")),
    };
    format!("unknown key `{key}`{place}; {hint}")
}

/// An address as it may be shown: of a URL the scheme and the host, for the rest of it may be a secret.
pub(crate) fn discreet(address: &str) -> String {
    let Some((scheme, rest)) = address.split_once("://") else { return address.to_owned() };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    format!("{scheme}://{host}/…")
}

/// What stands between backticks.
fn quoted(text: &str) -> Vec<&str> {
    text.split('`').skip(1).step_by(2).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "read by the derive only")]
    struct Sink {
        topic: String,
        #[serde(default)]
        linger_ms: u32,
    }

    fn mistake(text: &str) -> String {
        let document = Document { file: "pillarbox.toml".into(), text: text.to_owned() };
        let read = || {
            let root = document.parse()?;
            let value = root.get_ref().get("sink").unwrap();
            document.value::<Sink>("sink", value)
        };
        read().unwrap_err().to_string()
    }

    /// M4: of a URL nothing is shown that may be a secret.
    #[test]
    fn urls_are_shown_in_part() {
        for (address, shown) in [
            ("orders.{key}", "orders.{key}"),
            ("https://shop.example/hooks/T0/B1?token=17", "https://shop.example/…"),
            ("https://anna:17@shop.example?token=17", "https://shop.example/…"),
        ] {
            assert_eq!(discreet(address), shown);
        }
    }

    /// M4: every mistake is told with file, line, column and remedy.
    #[test]
    fn mistakes_are_pointed_at() {
        for (text, expected) in [
            (
                "[sink]\ntpic = \"a\"",
                "pillarbox.toml, line 2, column 1: unknown key `tpic` in `sink`; did you mean `topic`?",
            ),
            ("[sink]\nlinger_ms = 5", "pillarbox.toml, line 1, column 1: `topic` is missing in `sink`"),
            (
                "\n[sink]\ntopic = 5",
                "pillarbox.toml, line 3, column 9: `topic` in `sink`: invalid type: integer `5`, expected a string",
            ),
            (
                "[sink]\ntopic = \"a\"\nlinger_ms = \"secret\"",
                "pillarbox.toml, line 3, column 13: `linger_ms` in `sink`: invalid type: a text, expected u32",
            ),
            (
                "[sink]\ntopic = \"a\"\nwhatever = 1",
                "pillarbox.toml, line 3, column 1: unknown key `whatever` in `sink`; known are `topic`, `linger_ms`",
            ),
        ] {
            assert_eq!(mistake(text), expected);
        }
        assert!(mistake("[sink\n").starts_with("pillarbox.toml, line 1, column "), "{}", mistake("[sink\n"));
    }
}
