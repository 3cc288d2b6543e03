//! A point in time as people write it: how long ago it was, or an instant by RFC 3339.

use std::fmt;
use std::str::FromStr;

use pillarbox::Timestamp;

use crate::age::Age;

const HINT: &str = "write an age like `2h` or `3d`, or an instant like `2026-03-01T12:00:00Z`";

/// A point in time, which is shown as it was given.
#[derive(Clone, Debug)]
pub(crate) struct Moment {
    given: String,
    meant: Meant,
}

#[derive(Clone, Debug)]
enum Meant {
    Ago(Age),
    At(Timestamp),
}

impl Moment {
    /// When that is, seen from `now`.
    pub(crate) fn seen_from(&self, now: Timestamp) -> Timestamp {
        match &self.meant {
            Meant::Ago(age) => {
                let micros = i64::try_from(age.duration.as_micros()).unwrap_or(i64::MAX);
                Timestamp::from_micros(now.as_micros().saturating_sub(micros))
            }
            Meant::At(at) => *at,
        }
    }
}

impl FromStr for Moment {
    type Err = String;

    fn from_str(given: &str) -> Result<Self, String> {
        let given = given.trim();
        // An age has no dash in it, and an instant always has.
        let meant = if given.contains('-') {
            Meant::At(instant(given).map_err(|reason| format!("{reason}; {HINT}"))?)
        } else {
            Meant::Ago(given.parse().map_err(|_| format!("it is neither an age nor an instant; {HINT}"))?)
        };
        Ok(Self { given: given.to_owned(), meant })
    }
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.given)
    }
}

/// Reads `2026-03-01T12:00:00.250Z` or `2026-03-01T13:00:00+01:00`.
fn instant(text: &str) -> Result<Timestamp, String> {
    let mut reader = Reader(text);
    let date = (reader.number(4)?, reader.after('-', 2)?, reader.after('-', 2)?);
    reader.one_of(&['T', 't', ' '])?;
    let (hour, minute, second) = (reader.number(2)?, reader.after(':', 2)?, reader.after(':', 2)?);
    let fraction = reader.fraction()?;
    let offset = reader.offset()?;
    if !reader.0.is_empty() {
        return Err(format!("`{}` is too much", reader.0));
    }
    let (year, month, day) = date;
    if !(1..=12).contains(&month) || !(1..=days_in(year, month)).contains(&day) {
        return Err("there is no such day".to_owned());
    }
    // The last second of a day may be a leap second.
    if hour > 23 || minute > 59 || second > 60 {
        return Err("there is no such time of day".to_owned());
    }
    let seconds = days_before(year, month, day) * 86_400 + hour * 3_600 + minute * 60 + second - offset;
    Ok(Timestamp::from_micros(seconds * 1_000_000 + fraction))
}

/// What of an instant is still to be read.
struct Reader<'a>(&'a str);

impl Reader<'_> {
    /// So many digits.
    fn number(&mut self, digits: usize) -> Result<i64, String> {
        let (number, rest) = self.0.split_at_checked(digits).ok_or_else(|| "it is too short".to_owned())?;
        if !number.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(format!("`{number}` is no number of {digits} digits"));
        }
        self.0 = rest;
        number.parse().map_err(|_| format!("`{number}` is no number"))
    }

    /// So many digits behind a sign.
    fn after(&mut self, sign: char, digits: usize) -> Result<i64, String> {
        self.one_of(&[sign])?;
        self.number(digits)
    }

    fn one_of(&mut self, signs: &[char]) -> Result<char, String> {
        let first = self.0.chars().next().filter(|first| signs.contains(first));
        let first = first.ok_or_else(|| match self.0 {
            "" => "it is too short".to_owned(),
            rest => format!("`{rest}` does not begin with `{}`", signs.iter().collect::<String>()),
        })?;
        self.0 = &self.0[first.len_utf8()..];
        Ok(first)
    }

    /// Microseconds, if there is a fraction of a second; what is finer is cut off.
    fn fraction(&mut self) -> Result<i64, String> {
        let Some(rest) = self.0.strip_prefix('.') else { return Ok(0) };
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let (fraction, rest) = rest.split_at(digits);
        if digits == 0 {
            return Err("there is no digit behind the point".to_owned());
        }
        self.0 = rest;
        let micros: String = fraction.chars().chain("000000".chars()).take(6).collect();
        micros.parse().map_err(|_| format!("`{fraction}` is no fraction"))
    }

    /// Seconds that the place is ahead of UTC.
    fn offset(&mut self) -> Result<i64, String> {
        let missing = |_| "it does not say in which time zone it is (`Z` is UTC)".to_owned();
        let ahead = match self.one_of(&['Z', 'z', '+', '-']).map_err(missing)? {
            '+' => 1,
            '-' => -1,
            _ => return Ok(0),
        };
        let (hours, minutes) = (self.number(2)?, self.after(':', 2)?);
        if hours > 23 || minutes > 59 {
            return Err("there is no such time zone".to_owned());
        }
        Ok(ahead * (hours * 3_600 + minutes * 60))
    }
}

fn days_in(year: i64, month: i64) -> i64 {
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    match month {
        2 if is_leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days from 1970-01-01 to a day of the Gregorian calendar.
fn days_before(year: i64, month: i64, day: i64) -> i64 {
    // Years begin in March, so that the leap day comes last.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let day_of_era =
        year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + (153 * month + 2) / 5 + day - 1;
    era * 146_097 + day_of_era - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_micros(1_772_366_400_000_000);

    fn read(given: &str) -> Timestamp {
        given.parse::<Moment>().unwrap().seen_from(NOW)
    }

    /// K4: an instant is read as it is printed, in any time zone.
    #[test]
    fn instants_are_read() {
        for (given, printed) in [
            ("2026-03-01T12:00:00Z", "2026-03-01T12:00:00.000000Z"),
            ("2026-03-01t13:30:00.25+01:30", "2026-03-01T12:00:00.250000Z"),
            ("2026-02-28 23:59:59.9999999-00:30", "2026-03-01T00:29:59.999999Z"),
            ("2000-02-29T00:00:00Z", "2000-02-29T00:00:00.000000Z"),
            ("1969-12-31T23:59:59Z", "1969-12-31T23:59:59.000000Z"),
        ] {
            assert_eq!(read(given).to_string(), printed, "{given}");
        }
    }

    /// K4: an age is counted back from now.
    #[test]
    fn ages_are_counted_back() {
        assert_eq!(read("2h").to_string(), "2026-03-01T10:00:00.000000Z");
        assert_eq!(read("0s"), NOW);
    }

    /// K4: what is neither is refused with the reason and an example.
    #[test]
    fn anything_else_is_refused_with_the_reason() {
        for (given, reason) in [
            ("yesterday", "neither an age nor an instant"),
            ("", "neither an age nor an instant"),
            ("2h ago", "neither an age nor an instant"),
            ("-2h", "too short"),
            ("in-two-hours", "`in-t` is no number of 4 digits"),
            ("2026-03-01", "too short"),
            ("2026-03-01T12:00:00", "in which time zone"),
            ("2026-02-29T12:00:00Z", "no such day"),
            ("2026-13-01T12:00:00Z", "no such day"),
            ("2026-03-01T24:00:00Z", "no such time of day"),
            ("2026-03-01T12:00:00.Z", "no digit behind the point"),
            ("2026-03-01T12:00:00+25:00", "no such time zone"),
            ("2026-03-01T12:00:00Zulu", "`ulu` is too much"),
            ("2026-03-01/12:00:00Z", "does not begin with"),
        ] {
            let error = given.parse::<Moment>().unwrap_err();
            assert!(error.contains(reason) && error.contains("2026-03-01T12:00:00Z"), "{given}: {error}");
        }
    }
}
