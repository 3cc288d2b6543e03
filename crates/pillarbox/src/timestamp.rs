//! A point in time as databases keep it: whole microseconds since 1970, UTC.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A point in time, in whole microseconds since 1970-01-01T00:00:00Z.
///
/// Microseconds are what every supported database stores, so a timestamp that went through a table equals
/// the one that did not. It prints as RFC 3339 (`2026-03-01T12:00:00.000250Z`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

impl Timestamp {
    /// The timestamp that lies `micros` microseconds after (or, if negative, before) 1970.
    pub const fn from_micros(micros: i64) -> Self {
        Self(micros)
    }

    /// Microseconds since 1970; negative before it.
    pub const fn as_micros(self) -> i64 {
        self.0
    }

    /// This point in time moved forward by `by`, or the last representable one.
    pub fn saturating_add(self, by: Duration) -> Self {
        Self(self.0.saturating_add(micros(by)))
    }

    /// How long `self` lies after `earlier`; zero if it does not.
    pub fn saturating_since(self, earlier: Self) -> Duration {
        Duration::from_micros(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }
}

impl From<SystemTime> for Timestamp {
    /// Cuts off what is finer than a microsecond.
    fn from(time: SystemTime) -> Self {
        match time.duration_since(UNIX_EPOCH) {
            Ok(after) => Self(micros(after)),
            Err(before) => Self(-micros(before.duration())),
        }
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const DAY: i64 = 86_400_000_000;
        let (year, month, day) = civil_from_days(self.0.div_euclid(DAY));
        let micros = self.0.rem_euclid(DAY);
        let (seconds, fraction) = (micros / 1_000_000, micros % 1_000_000);
        let (hour, minute, second) = (seconds / 3_600, seconds / 60 % 60, seconds % 60);
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{fraction:06}Z")
    }
}

fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

/// Year, month and day in the proleptic Gregorian calendar, `days` after 1970-01-01.
fn civil_from_days(days: i64) -> (i64, i64, i64) {
    // Counted in eras of 400 years that begin on a 1 March, so that the leap day comes last.
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prints_as_rfc_3339() {
        for (micros, text) in [
            (0, "1970-01-01T00:00:00.000000Z"),
            (951_782_400_000_001, "2000-02-29T00:00:00.000001Z"),
            (1_772_366_399_999_999, "2026-03-01T11:59:59.999999Z"),
            (-1, "1969-12-31T23:59:59.999999Z"),
        ] {
            assert_eq!(Timestamp::from_micros(micros).to_string(), text);
        }
    }

    #[test]
    fn drops_what_a_database_would_drop() {
        let fine = UNIX_EPOCH + Duration::from_nanos(1_999);

        assert_eq!(Timestamp::from(fine), Timestamp::from_micros(1));
    }
}
