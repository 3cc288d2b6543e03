//! Values as they stand in a file or a variable, and what options make of them.

use std::fmt;
use std::time::Duration;

use crate::config::{DeadHead, Plan, Unroutable};
use crate::retry::RetryKind;
use crate::store::{DoneRows, Mode};

/// A value as it was given, before anybody knows what it is for.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Raw {
    Flag(bool),
    /// As it is written: it may be larger than any number.
    Integer {
        text: String,
        value: Option<i64>,
    },
    Float(f64),
    Text(String),
    List(Vec<Raw>),
    /// What no option can be made of, by its name in TOML.
    Other(&'static str),
    /// The text of a variable: of whatever type its option has.
    Variable(String),
}

/// The most characters of a value in an error.
const MOST_SHOWN: usize = 60;

impl Raw {
    pub(super) fn is_negative(&self) -> bool {
        matches!(self, Self::Integer { text, .. } | Self::Variable(text) if text.starts_with('-'))
    }
}

impl fmt::Display for Raw {
    /// For errors: cut if it is long, and never with what may be a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag(flag) => write!(f, "{flag}"),
            Self::Integer { text, .. } => f.write_str(&cut(text)),
            Self::Float(number) => write!(f, "{number:?}"),
            Self::Text(text) | Self::Variable(text) if text.contains("://") && text.contains('@') => {
                f.write_str("a URL that is not shown")
            }
            Self::Text(text) | Self::Variable(text) => write!(f, "\"{}\"", cut(text)),
            Self::List(_) => f.write_str("a list"),
            Self::Other(what) => write!(f, "a {what}"),
        }
    }
}

fn cut(text: &str) -> String {
    let mut shown: String = text.chars().take(MOST_SHOWN).flat_map(char::escape_debug).collect();
    if text.chars().nth(MOST_SHOWN).is_some() {
        shown.push('…');
    }
    shown
}

/// A type that options have.
pub(crate) trait Setting: Sized {
    /// What `raw` stands for; otherwise what would work.
    fn read(raw: &Raw) -> Result<Self, String>;

    /// How it is written in TOML; nothing if it is not set.
    fn shown(&self) -> Option<String>;
}

impl Setting for bool {
    fn read(raw: &Raw) -> Result<Self, String> {
        match raw {
            Raw::Flag(flag) => Ok(*flag),
            Raw::Variable(text) if text == "true" => Ok(true),
            Raw::Variable(text) if text == "false" => Ok(false),
            _ => Err("it must be `true` or `false`".to_owned()),
        }
    }

    fn shown(&self) -> Option<String> {
        Some(self.to_string())
    }
}

/// A whole number up to `most`.
fn whole(raw: &Raw, most: u64) -> Result<u64, String> {
    let (text, value) = match raw {
        Raw::Integer { text, value } => (text.as_str(), value.and_then(|value| u64::try_from(value).ok())),
        // As in a file, where digits may be grouped.
        Raw::Variable(text) => (text.as_str(), text.replace('_', "").parse().ok()),
        _ => return Err("it must be a whole number".to_owned()),
    };
    let digits = text.strip_prefix('-').unwrap_or(text);
    let is_number = !digits.is_empty() && digits.chars().all(|digit| digit.is_ascii_digit() || digit == '_');
    match value {
        Some(value) if value <= most => Ok(value),
        None if is_number && text.starts_with('-') => Err("it must not be negative".to_owned()),
        None if matches!(raw, Raw::Variable(_)) && !is_number => Err("it must be a whole number".to_owned()),
        _ => Err(format!("it must be at most {most}")),
    }
}

impl Setting for usize {
    fn read(raw: &Raw) -> Result<Self, String> {
        let number = whole(raw, usize::MAX as u64)?;
        usize::try_from(number).map_err(|_| format!("it must be at most {}", usize::MAX))
    }

    fn shown(&self) -> Option<String> {
        Some(self.to_string())
    }
}

impl Setting for u32 {
    fn read(raw: &Raw) -> Result<Self, String> {
        let number = whole(raw, u32::MAX.into())?;
        u32::try_from(number).map_err(|_| format!("it must be at most {}", u32::MAX))
    }

    fn shown(&self) -> Option<String> {
        Some(self.to_string())
    }
}

impl Setting for f64 {
    fn read(raw: &Raw) -> Result<Self, String> {
        let number = match raw {
            Raw::Float(number) => Some(*number),
            Raw::Integer { text, .. } | Raw::Variable(text) => text.parse().ok(),
            _ => None,
        };
        number.filter(|number| number.is_finite()).ok_or_else(|| "it must be a number, like `2.0`".to_owned())
    }

    fn shown(&self) -> Option<String> {
        Some(format!("{self:?}"))
    }
}

/// Text that stands for itself.
impl Setting for Option<String> {
    fn read(raw: &Raw) -> Result<Self, String> {
        match raw {
            Raw::Text(text) | Raw::Variable(text) => Ok(Some(text.clone())),
            _ => Err("it must be text, in quotes".to_owned()),
        }
    }

    fn shown(&self) -> Option<String> {
        self.as_deref().map(quoted)
    }
}

/// Names: a list in a file, separated by commas in a variable.
impl Setting for Vec<String> {
    fn read(raw: &Raw) -> Result<Self, String> {
        let named = |item: &Raw| match item {
            Raw::Text(name) => Some(name.clone()),
            _ => None,
        };
        let names = match raw {
            Raw::List(items) => items.iter().map(named).collect(),
            Raw::Variable(text) => {
                let names = text.split(',').map(str::trim).filter(|name| !name.is_empty());
                Some(names.map(str::to_owned).collect())
            }
            _ => None,
        };
        names.ok_or_else(|| "it must be a list of names, like `[\"timeout\", \"io\"]`".to_owned())
    }

    fn shown(&self) -> Option<String> {
        let names: Vec<String> = self.iter().map(|name| quoted(name)).collect();
        Some(format!("[{}]", names.join(", ")))
    }
}

/// Text as TOML writes it.
pub(super) fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for character in text.chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            control if control.is_control() => quoted.push_str(&format!("\\u{:04X}", control as u32)),
            other => quoted.push(other),
        }
    }
    quoted + "\""
}

/// Units of time and their lengths in nanoseconds, the longest first.
const UNITS: [(&str, u128); 7] = [
    ("d", 86_400_000_000_000),
    ("h", 3_600_000_000_000),
    ("m", 60_000_000_000),
    ("s", 1_000_000_000),
    ("ms", 1_000_000),
    ("us", 1_000),
    ("ns", 1),
];

impl Setting for Duration {
    fn read(raw: &Raw) -> Result<Self, String> {
        match raw {
            Raw::Text(text) | Raw::Variable(text) if is_number(text) => Err(no_unit(text)),
            Raw::Text(text) | Raw::Variable(text) => duration(text).ok_or_else(|| {
                "it must be a duration, like `5s`, `100ms`, `2m` or `1h30m`; units are `d`, `h`, `m`, `s`, `ms`, `us` and `ns`"
                    .to_owned()
            }),
            Raw::Integer { text, .. } => Err(no_unit(text)),
            _ => Err("it must be a duration, like `\"5s\"`".to_owned()),
        }
    }

    fn shown(&self) -> Option<String> {
        let nanos = self.as_nanos();
        let exact = |(_, length): &(&str, u128)| nanos.is_multiple_of(*length);
        let (unit, length) = UNITS.into_iter().find(exact).filter(|_| nanos > 0).unwrap_or(("s", 1));
        Some(format!("\"{}{unit}\"", nanos / length))
    }
}

fn is_number(text: &str) -> bool {
    text.trim().parse::<f64>().is_ok_and(f64::is_finite)
}

fn no_unit(number: &str) -> String {
    let number = cut(number.trim());
    format!("a duration needs its unit, like `\"{number}ms\"` or `\"{number}s\"`")
}

/// What `1h30m` means, if it means anything.
fn duration(text: &str) -> Option<Duration> {
    let mut nanos: u128 = 0;
    let mut rest = text.trim();
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let (number, behind) = split_number(rest)?;
        let end = behind.find(|unit: char| !unit.is_ascii_alphabetic()).unwrap_or(behind.len());
        let (unit, behind) = behind.split_at(end);
        let (_, length) = UNITS.into_iter().find(|(known, _)| *known == unit)?;
        nanos = nanos.checked_add(scaled(number, length)?)?;
        rest = behind.trim_start();
    }
    let seconds = u64::try_from(nanos / 1_000_000_000).ok()?;
    Some(Duration::new(seconds, u32::try_from(nanos % 1_000_000_000).ok()?))
}

/// Bytes in multiples of 1,024 or 1,000, the largest first.
const SIZES: [(&str, u128); 7] = [
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("KB", 1_000),
    ("B", 1),
];

/// A number of bytes, like `4MiB`.
pub(super) fn read_size(raw: &Raw) -> Result<usize, String> {
    let remedy = || "it must be a number of bytes, like `4MiB`, `64KiB` or `1000000`".to_owned();
    let text = match raw {
        Raw::Integer { .. } => return usize::read(raw),
        Raw::Variable(text) if is_number(text) => return usize::read(raw),
        Raw::Text(text) | Raw::Variable(text) => text.trim(),
        _ => return Err(remedy()),
    };
    let (number, unit) = split_number(text).ok_or_else(remedy)?;
    let size = SIZES.into_iter().find(|(known, _)| *known == unit.trim());
    let bytes = size.and_then(|(_, length)| scaled(number, length)).ok_or_else(remedy)?;
    usize::try_from(bytes).map_err(|_| format!("it must be at most {} bytes", usize::MAX))
}

pub(super) fn shown_size(bytes: usize) -> Option<String> {
    let exact = |(_, length): &&(&str, u128)| bytes > 0 && (bytes as u128).is_multiple_of(*length);
    let size = SIZES[..3].iter().find(exact);
    Some(size.map_or(bytes.to_string(), |(unit, length)| format!("\"{}{unit}\"", bytes as u128 / length)))
}

/// The number that a text begins with, and what stands behind it.
fn split_number(text: &str) -> Option<(&str, &str)> {
    let end = text.find(|digit: char| !digit.is_ascii_digit() && digit != '.').unwrap_or(text.len());
    (end > 0).then(|| text.split_at(end))
}

/// A number such as `1.5` times `length`, cut to a whole one.
fn scaled(number: &str, length: u128) -> Option<u128> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let (whole, digits) = (whole.parse::<u128>().ok()?, u32::try_from(fraction.len()).ok()?);
    let fraction = fraction.parse::<u128>().ok()?.checked_mul(length)? / 10_u128.checked_pow(digits)?;
    whole.checked_mul(length)?.checked_add(fraction)
}

/// Types of which every value has a word.
macro_rules! words {
    ($($type:ty { $($value:path = $word:literal),* } $(: $hint:literal)?;)*) => {$(
        impl Setting for $type {
            fn read(raw: &Raw) -> Result<Self, String> {
                match raw {
                    $(Raw::Text(word) | Raw::Variable(word) if word == $word => Ok($value),)*
                    _ => Err(one_of(&[$($word),*]) $(+ $hint)?),
                }
            }

            fn shown(&self) -> Option<String> {
                let word = match self {
                    $($value => $word,)*
                };
                Some(quoted(word))
            }
        }
    )*};
}

words! {
    Unroutable { Unroutable::Dead = "dead", Unroutable::Hold = "hold" };
    DeadHead { DeadHead::Release = "release", DeadHead::Park = "park" };
    Mode { Mode::Claims = "claims", Mode::Ownership = "ownership" };
    Plan { Plan::Full = "full", Plan::PollerOnly = "poller_only", Plan::WriterOnly = "writer_only" };
    RetryKind {
        RetryKind::Default = "default",
        RetryKind::Exponential = "exponential",
        RetryKind::Fixed = "fixed"
    }
        : "; for `jittered`, set `retry.jitter` beside one of them";
}

fn one_of(words: &[&str]) -> String {
    format!("it must be one of `\"{}\"`", words.join("\"`, `\""))
}

/// Whether they are deleted.
impl Setting for DoneRows {
    fn read(raw: &Raw) -> Result<Self, String> {
        bool::read(raw).map(|delete| if delete { Self::Delete } else { Self::Keep })
    }

    fn shown(&self) -> Option<String> {
        (*self == Self::Delete).shown()
    }
}

/// Options that need not be set: `"none"` unsets what another source has set.
macro_rules! optional {
    ($($type:ty)*) => {$(
        impl Setting for Option<$type> {
            fn read(raw: &Raw) -> Result<Self, String> {
                match raw {
                    Raw::Text(word) | Raw::Variable(word) if word == "none" => Ok(None),
                    _ => <$type>::read(raw).map(Some),
                }
            }

            fn shown(&self) -> Option<String> {
                self.as_ref().and_then(Setting::shown)
            }
        }
    )*};
}

optional! { bool usize u32 f64 Duration Mode }

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn text(text: &str) -> Raw {
        Raw::Text(text.to_owned())
    }

    #[test]
    fn durations_are_numbers_with_units() {
        for (given, millis) in [
            ("5s", 5_000),
            ("100ms", 100),
            ("2m", 120_000),
            ("1h30m", 5_400_000),
            ("1h 30m", 5_400_000),
            (" 7d ", 604_800_000),
            ("1.5s", 1_500),
            ("0s", 0),
            ("2000us", 2),
        ] {
            assert_eq!(Duration::read(&text(given)), Ok(Duration::from_millis(millis)), "{given}");
        }
    }

    #[test]
    fn what_is_no_duration_is_answered() {
        for given in
            ["", "s", "5", "-5s", "5 parsecs", "5s5", "1.2.3s", "1.s", "99999999999999999999s", "five", "5S"]
        {
            assert!(Duration::read(&text(given)).is_err(), "{given}");
        }
        let bare = Raw::Integer { text: "2000".into(), value: Some(2_000) };
        assert_eq!(
            Duration::read(&bare).unwrap_err(),
            "a duration needs its unit, like `\"2000ms\"` or `\"2000s\"`"
        );
    }

    #[test]
    fn sizes_have_units_or_are_bytes() {
        for (given, bytes) in
            [("4MiB", 4 << 20), ("64KiB", 64 << 10), ("64 KB", 64_000), ("0.5KiB", 512), ("7B", 7)]
        {
            assert_eq!(read_size(&text(given)), Ok(bytes), "{given}");
        }
        assert_eq!(read_size(&Raw::Integer { text: "17".into(), value: Some(17) }), Ok(17));
        assert_eq!(read_size(&Raw::Variable("17".into())), Ok(17));
        for given in ["", "4mib", "MiB", "4 apples", "-1", "99999999999GiB"] {
            assert!(read_size(&text(given)).is_err(), "{given}");
        }
    }

    #[test]
    fn urls_with_passwords_are_not_shown() {
        let url = Raw::Variable("postgres://app:seventeen@db/shop".into());

        assert_eq!(url.to_string(), "a URL that is not shown");
    }

    fn unquoted(shown: Option<String>) -> Raw {
        let shown = shown.unwrap();
        match shown.strip_prefix('"') {
            Some(rest) => Raw::Text(rest.trim_end_matches('"').to_owned()),
            None => Raw::Variable(shown),
        }
    }

    proptest! {
        #[test]
        fn what_is_shown_means_the_same(secs in any::<u64>(), nanos in 0..1_000_000_000_u32, bytes in any::<usize>()) {
            let duration = Duration::new(secs, nanos);

            prop_assert_eq!(Duration::read(&unquoted(duration.shown())), Ok(duration));
            prop_assert_eq!(read_size(&unquoted(shown_size(bytes))), Ok(bytes));
        }

        #[test]
        fn nothing_makes_it_panic(given in "\\PC*|[0-9.]{0,60}[a-zA-Z]{0,3}") {
            for raw in [Raw::Text(given.clone()), Raw::Variable(given.clone()), Raw::Integer { text: given, value: None }] {
                let _ = (Duration::read(&raw), read_size(&raw), usize::read(&raw), u32::read(&raw), f64::read(&raw));
                let _ = (Vec::<String>::read(&raw), bool::read(&raw), Mode::read(&raw), raw.to_string());
            }
        }
    }
}
