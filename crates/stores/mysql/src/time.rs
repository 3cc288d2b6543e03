//! Points in time as MySQL has them.

use pillarbox::Timestamp;
use sqlx::error::BoxDynError;
use sqlx::mysql::{MySql, MySqlTypeInfo, MySqlValueRef};
use sqlx::{Decode, Type, TypeInfo};

/// The first and the last microsecond of the years 1000 to 9999, which `DATETIME` holds, since 1970.
const EARLIEST: i64 = -30_610_224_000_000_000;
const LATEST: i64 = 253_402_300_799_999_999;

/// A `DATETIME(6)` in UTC, as it comes from the table.
pub(crate) struct Moment(pub(crate) Timestamp);

impl Type<MySql> for Moment {
    fn type_info() -> MySqlTypeInfo {
        <str as Type<MySql>>::type_info()
    }

    fn compatible(found: &MySqlTypeInfo) -> bool {
        found.name() == "DATETIME"
    }
}

impl<'r> Decode<'r, MySql> for Moment {
    /// In the binary protocol: a length, then year, month and day, then the time, then microseconds; zeros at
    /// the end are left out.
    fn decode(value: MySqlValueRef<'r>) -> Result<Self, BoxDynError> {
        let bytes = <&[u8] as Decode<MySql>>::decode(value)?;
        let mut parts = [0; 12];
        let (&length, rest) = bytes.split_first().ok_or("the time is empty")?;
        if usize::from(length) != rest.len() || !matches!(length, 4 | 7 | 11) {
            return Err(format!("the time has {length} bytes").into());
        }
        parts[..rest.len()].copy_from_slice(rest);
        let [y0, y1, month, day, hour, minute, second, m0, m1, m2, m3, _] = parts;
        let days = days_from_civil(u16::from_le_bytes([y0, y1]).into(), month.into(), day.into());
        let seconds = ((days * 24 + i64::from(hour)) * 60 + i64::from(minute)) * 60 + i64::from(second);
        let micros = i64::from(u32::from_le_bytes([m0, m1, m2, m3]));
        Ok(Self(Timestamp::from_micros(seconds * 1_000_000 + micros)))
    }
}

/// Days from 1970-01-01 to a day of the proleptic Gregorian calendar.
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    // Counted in eras of 400 years that begin on a 1 March, so that the leap day comes last.
    let (year, month_from_march) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * month_from_march + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

/// A point in time as it is bound, or the nearest that a column can hold.
pub(crate) fn nearest(at: Timestamp) -> i64 {
    at.as_micros().clamp(EARLIEST, LATEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Days are counted as the calendar has them, leap years and centuries included.
    #[test]
    fn days_are_counted_from_1970() {
        for (date, days) in [
            ((1970, 1, 1), 0),
            ((1969, 12, 31), -1),
            ((2000, 2, 29), 11_016),
            ((2000, 3, 1), 11_017),
            ((2100, 3, 1), 47_541),
            ((1900, 1, 1), -25_567),
        ] {
            assert_eq!(days_from_civil(date.0, date.1, date.2), days, "{date:?}");
        }
    }

    /// The limits are those of `DATETIME`.
    #[test]
    fn limits_are_the_years_1000_to_9999() {
        assert_eq!(Timestamp::from_micros(EARLIEST).to_string(), "1000-01-01T00:00:00.000000Z");
        assert_eq!(Timestamp::from_micros(LATEST).to_string(), "9999-12-31T23:59:59.999999Z");
        assert_eq!(nearest(Timestamp::from_micros(LATEST + 1)), LATEST);
        assert_eq!(nearest(Timestamp::from_micros(i64::MIN)), EARLIEST);
    }
}
