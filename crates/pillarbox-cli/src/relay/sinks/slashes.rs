//! Addresses of servers that lack what ends their scheme.

use super::option::wrong_in;
use crate::relay::config::{Config, SinkTable};
use crate::relay::document::Mistake;

/// Refuses the URL of a server that has a `/` but no `://`: clients take its scheme for the host, or connect to this machine.
pub(super) fn check_slashes(
    config: &Config,
    table: &SinkTable,
    url: &str,
    example: &str,
) -> Result<(), Mistake> {
    match url.contains('/') && !url.contains("://") {
        true => Err(wrong_in(
            config,
            table,
            "url",
            format!("it has a `/`, but no `://`; write it as `{example}`"),
        )),
        false => Ok(()),
    }
}
