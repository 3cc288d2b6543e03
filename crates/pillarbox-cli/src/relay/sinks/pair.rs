//! Options that make sense together only.

use crate::relay::config::{Config, SinkTable};
use crate::relay::document::Mistake;

/// Two options that go together: both of them, or neither.
pub(super) fn both<A, B>(
    config: &Config,
    table: &SinkTable,
    (first, one): (&str, Option<A>),
    (second, other): (&str, Option<B>),
) -> Result<Option<(A, B)>, Mistake> {
    match (one, other) {
        (Some(one), Some(other)) => Ok(Some((one, other))),
        (None, None) => Ok(None),
        _ => Err(config.wrong(table, format!("`{first}` and `{second}` go together; give both or none"))),
    }
}
