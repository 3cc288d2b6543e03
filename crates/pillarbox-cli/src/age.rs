//! How old something is, as people write it: `30s`, `12h`, `30d`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

const HINT: &str = "write a number and a unit, for example `30s`, `15m`, `12h` or `30d`";
/// A hundred years; whatever is longer is a slip of the pen, and might not fit into a timestamp.
const LONGEST: u64 = 36_500 * 86_400_000;

/// An age, which is shown as it was given.
#[derive(Clone, Debug, serde::Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct Age {
    given: String,
    pub(crate) duration: Duration,
}

impl FromStr for Age {
    type Err = String;

    fn from_str(given: &str) -> Result<Self, String> {
        Ok(Self { given: given.trim().to_owned(), duration: parse(given)? })
    }
}

impl TryFrom<String> for Age {
    type Error = String;

    fn try_from(given: String) -> Result<Self, String> {
        given.parse().map_err(|reason| format!("`{given}` is no time: {reason}"))
    }
}

impl fmt::Display for Age {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.given)
    }
}

/// Reads a whole number followed by `ms`, `s`, `m`, `h`, `d` or `w`.
fn parse(text: &str) -> Result<Duration, String> {
    let text = text.trim();
    let unit_at = text.find(|character: char| !character.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(unit_at);
    if number.is_empty() {
        return Err(format!("it begins with no number; {HINT}"));
    }
    let millis: u64 = match unit.trim() {
        "ms" => 1,
        "s" => 1_000,
        "m" | "min" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        "w" => 7 * 86_400_000,
        "" => return Err(format!("it has no unit; {HINT}")),
        unit => return Err(format!("`{unit}` is no unit; {HINT}")),
    };
    let number: Option<u64> = number.parse().ok();
    let total = number.and_then(|number| number.checked_mul(millis)).filter(|&total| total <= LONGEST);
    total.map(Duration::from_millis).ok_or_else(|| "it is longer than 100 years (36500d)".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_with_units_are_durations() {
        for (text, seconds) in [("0s", 0), ("30s", 30), ("15m", 900), ("12h", 43_200), ("30d", 2_592_000)] {
            assert_eq!(parse(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        assert_eq!(parse("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(parse("2 w"), Ok(Duration::from_secs(1_209_600)));
    }

    #[test]
    fn anything_else_is_refused_with_the_reason() {
        for (text, reason) in [
            ("", "no number"),
            ("d30", "no number"),
            ("-5s", "no number"),
            ("30", "no unit"),
            ("30x", "`x` is no unit"),
            ("1.5h", "`.5h` is no unit"),
            ("36501d", "100 years"),
            ("99999999999999999999d", "100 years"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(reason), "{text}: {error}");
        }
    }
}
