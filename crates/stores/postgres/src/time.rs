//! Instants as PostgreSQL sends them.

use pillarbox::Timestamp;
use sqlx::encode::IsNull;
use sqlx::error::BoxDynError;
use sqlx::postgres::types::Oid;
use sqlx::postgres::{PgArgumentBuffer, PgHasArrayType, PgTypeInfo, PgValueRef};
use sqlx::{Decode, Encode, Postgres, Type};

/// 2000-01-01, from which PostgreSQL counts, in microseconds since 1970.
const ORIGIN: i64 = 946_684_800_000_000;

/// The earliest instant that PostgreSQL can store (4714-11-24 BC), counted from [`ORIGIN`].
const EARLIEST: i64 = -211_813_488_000_000_000;

/// A `timestamptz`: whole microseconds in a binary format, both ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Instant(i64);

impl Instant {
    /// `-infinity`, which lies before everything.
    pub(crate) const NEVER: Self = Self(i64::MIN);

    /// `infinity`, which lies behind everything: when a row is available that waits for nothing but its key.
    pub(crate) const ENDLESS: Self = Self(i64::MAX);

    /// The instant this long before.
    pub(crate) fn before(self, time: std::time::Duration) -> Self {
        Self(self.0.saturating_sub_unsigned(u64::try_from(time.as_micros()).unwrap_or(u64::MAX)))
    }

    /// Microseconds since `earlier`; 0 if it lies ahead.
    pub(crate) fn micros_since(self, earlier: Self) -> u64 {
        u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0)
    }
}

impl From<Timestamp> for Instant {
    /// What lies before the earliest instant that PostgreSQL knows becomes that instant.
    fn from(timestamp: Timestamp) -> Self {
        Self(timestamp.as_micros().saturating_sub(ORIGIN).max(EARLIEST))
    }
}

impl From<Instant> for Timestamp {
    fn from(Instant(micros): Instant) -> Self {
        Self::from_micros(micros.saturating_add(ORIGIN))
    }
}

impl Type<Postgres> for Instant {
    fn type_info() -> PgTypeInfo {
        PgTypeInfo::with_oid(Oid(1184))
    }
}

impl PgHasArrayType for Instant {
    fn array_type_info() -> PgTypeInfo {
        PgTypeInfo::with_oid(Oid(1185))
    }
}

impl Encode<'_, Postgres> for Instant {
    fn encode_by_ref(&self, buffer: &mut PgArgumentBuffer) -> Result<IsNull, BoxDynError> {
        Encode::<Postgres>::encode(self.0, buffer)
    }
}

impl<'r> Decode<'r, Postgres> for Instant {
    fn decode(value: PgValueRef<'r>) -> Result<Self, BoxDynError> {
        <i64 as Decode<Postgres>>::decode(value).map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// V1: what is stored comes back, before 2000 and 1970 too.
    #[test]
    fn instants_come_back() {
        for micros in [0, 1, -1, ORIGIN, ORIGIN - 1, 10_413_792_000_000_001, i64::MAX - ORIGIN] {
            let timestamp = Timestamp::from_micros(micros);

            assert_eq!(Timestamp::from(Instant::from(timestamp)), timestamp);
        }
    }

    /// V6: no instant is one that PostgreSQL would refuse in the middle of a transaction.
    #[test]
    fn what_postgres_cannot_store_becomes_the_nearest_that_it_can() {
        assert_eq!(Instant::from(Timestamp::from_micros(i64::MIN)), Instant(EARLIEST));
        assert_eq!(Instant::from(Timestamp::from_micros(i64::MAX)), Instant(i64::MAX - ORIGIN));
    }

    /// What lies ahead is not long ago.
    #[test]
    fn time_since_the_future_is_nothing() {
        assert_eq!(Instant(5).micros_since(Instant(2)), 3);
        assert_eq!(Instant(2).micros_since(Instant(5)), 0);
        assert_eq!(Instant(i64::MAX).micros_since(Instant::NEVER), i64::MAX as u64);
    }
}
