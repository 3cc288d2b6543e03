//! The databases that a run makes on a server.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result};

use crate::database::Address;

/// Names of databases that were made, so that they can be dropped.
pub(crate) struct Databases {
    url: String,
    names: Mutex<BTreeSet<String>>,
}

impl Databases {
    /// None yet, on the server at `url`.
    pub(crate) fn new(url: String) -> Self {
        Self { url, names: Mutex::default() }
    }

    /// The full name of database `name` of this run, and whether it is new.
    pub(crate) fn add(&self, name: &str) -> (String, bool) {
        let name = format!("pillarbox_bench_{}_{}", std::process::id(), name.replace('-', "_"));
        let is_new = self.names.lock().unwrap_or_else(PoisonError::into_inner).insert(name.clone());
        (name, is_new)
    }

    /// The names of all, which are forgotten.
    pub(crate) fn take(&self) -> BTreeSet<String> {
        std::mem::take(&mut self.names.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Where a database is, by its full name.
    pub(crate) fn address(&self, name: &str) -> Result<Address> {
        let (scheme, rest) = self.url.split_once("://").context("the URL of the server has no `://`")?;
        let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
        let authority = place.split_once('/').map_or(place, |(authority, _)| authority);
        let mark = if query.is_empty() { "" } else { "?" };
        Ok(Address::new(format!("{scheme}://{authority}/{name}{mark}{query}")))
    }
}

/// The full name of the database at an address.
pub(crate) fn name_in(address: &Address) -> &str {
    let (place, _) = address.as_str().split_once('?').unwrap_or((address.as_str(), ""));
    place.rsplit_once('/').map_or(place, |(_, name)| name)
}

/// So many numbers from `first` on, in portions.
pub(crate) fn portions(
    first: i64,
    count: usize,
    portion: usize,
) -> Result<impl Iterator<Item = std::ops::Range<i64>>> {
    let (end, portion) = (first + i64::try_from(count)?, i64::try_from(portion)?);
    let begins = std::iter::successors(Some(first), move |begin| Some(begin + portion));
    Ok(begins.take_while(move |begin| *begin < end).map(move |begin| begin..end.min(begin + portion)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_database_is_addressed_on_the_server_of_the_url() {
        for (url, expected) in [
            ("postgres://me:secret@localhost:5432/orders", "postgres://me:secret@localhost:5432/b"),
            ("postgres://localhost", "postgres://localhost/b"),
            ("mysql://me@[::1]/orders?ssl-mode=required", "mysql://me@[::1]/b?ssl-mode=required"),
        ] {
            let address = Databases::new(url.to_owned()).address("b").unwrap();

            assert_eq!(address.as_str(), expected);
            assert_eq!(name_in(&address), "b");
        }
    }

    #[test]
    fn portions_cover_all_numbers_once() {
        let covered: Vec<i64> = portions(5, 7, 3).unwrap().flatten().collect();

        assert_eq!(covered, [5, 6, 7, 8, 9, 10, 11]);
        assert_eq!(portions(5, 0, 3).unwrap().count(), 0);
    }
}
