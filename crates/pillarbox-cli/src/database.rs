//! Which database a command works on, and whether it can.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::Context;
use clap::Args;
use pillarbox::store::StoreError;
use pillarbox_sqlite::{SqliteOptions, SqliteStore};
use sqlx::sqlite::SqliteConnectOptions;

use crate::exit::Unusable;

/// What every SQLite file begins with.
const MAGIC: &[u8] = b"SQLite format 3\0";

/// Where the outbox is.
#[derive(Args, Clone, Debug)]
pub(crate) struct Database {
    /// The database: a path, or a URL that begins with `sqlite:`
    // Taken as text: clap would repeat a URL that it refuses, and the password in it.
    #[arg(long, env = "PILLARBOX_DB", hide_env_values = true, value_name = "PATH|URL")]
    db: String,

    /// What stands before the names of the outbox's tables
    #[arg(long, default_value = "", hide_default_value = true)]
    prefix: String,
}

impl Database {
    /// Opens an outbox that exists.
    pub(crate) async fn open(&self) -> anyhow::Result<Opened> {
        let location: Location = self.db.parse()?;
        let path = location.path();
        if !path.exists() {
            let path = path.display();
            return Err(Unusable(format!("no such file: `{path}`; `pillarbox migrate` creates it")).into());
        }
        let store = self.connect(&location, false).await?;
        let version = store.check().await.map_err(|error| location.explain(error))?;
        Ok(Opened { store, version, name: location.name() })
    }

    /// Opens a database that may have no outbox yet, or not even a file.
    pub(crate) async fn open_or_create(&self) -> anyhow::Result<(SqliteStore, Location)> {
        let location: Location = self.db.parse()?;
        Ok((self.connect(&location, true).await?, location))
    }

    async fn connect(&self, location: &Location, create: bool) -> anyhow::Result<SqliteStore> {
        location.check()?;
        let options = location.options().prefix(&self.prefix).create_if_missing(create);
        options.watch(false).max_connections(2).connect().await.map_err(|error| location.explain(error))
    }
}

/// An outbox that exists.
pub(crate) struct Opened {
    pub(crate) store: SqliteStore,
    /// The version of its tables.
    pub(crate) version: u32,
    /// The file, for people.
    pub(crate) name: String,
}

/// A database as the user named it.
#[derive(Clone, Debug)]
pub(crate) struct Location {
    given: String,
    path: PathBuf,
}

impl Location {
    /// The database in the file `path`.
    pub(crate) fn of(path: PathBuf) -> Self {
        Self { given: path.to_string_lossy().into_owned(), path }
    }

    /// The file.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The file, for people.
    pub(crate) fn name(&self) -> String {
        self.path.display().to_string()
    }

    /// Names the file in errors that do not.
    pub(crate) fn explain(&self, error: StoreError) -> anyhow::Error {
        match error {
            StoreError::NotMigrated | StoreError::OlderSchema { .. } | StoreError::NewerSchema { .. } => {
                anyhow::Error::new(error).context(self.name())
            }
            other => other.into(),
        }
    }

    /// How it was named, for another process to name it so too.
    pub(crate) fn given(&self) -> &str {
        &self.given
    }

    pub(crate) fn options(&self) -> SqliteOptions {
        SqliteStore::options(self.given.clone())
    }

    /// Refuses what exists and is no SQLite database. An empty file is one.
    pub(crate) fn check(&self) -> anyhow::Result<()> {
        if self.path.is_dir() {
            return Err(Unusable(format!("`{}` is a directory; give a file", self.path.display())).into());
        }
        if !self.path.exists() {
            return Ok(());
        }
        let mut head = Vec::new();
        let file = std::fs::File::open(&self.path);
        file.and_then(|file| file.take(MAGIC.len() as u64).read_to_end(&mut head))
            .with_context(|| format!("`{}` cannot be read", self.path.display()))?;
        if head.is_empty() || head == MAGIC {
            return Ok(());
        }
        Err(Unusable(format!("`{}` is not a SQLite database", self.path.display())).into())
    }
}

impl FromStr for Location {
    type Err = Unusable;

    /// Reads a path or a URL; of a URL that is refused nothing is repeated but the scheme, as it may hold a
    /// password.
    fn from_str(given: &str) -> Result<Self, Unusable> {
        if given.is_empty() {
            return Err(Unusable("give a path, or a URL that begins with `sqlite:`".to_owned()));
        }
        if given.starts_with("sqlite:") {
            let options: SqliteConnectOptions = given.parse().map_err(|_| {
                Unusable("this is no URL of a SQLite database; write `sqlite:PATH`".to_owned())
            })?;
            let path = options.get_filename().to_owned();
            return Ok(Self { given: given.to_owned(), path });
        }
        match scheme(given) {
            Some(scheme) => {
                Err(Unusable(format!("unknown scheme `{scheme}`; known are `sqlite:PATH` and a plain path")))
            }
            None => Ok(Self::of(PathBuf::from(given))),
        }
    }
}

/// The scheme of a URL; `None` for paths, also those with a colon or a drive letter in them.
fn scheme(given: &str) -> Option<&str> {
    let (scheme, rest) = given.split_once(':')?;
    let is_word = |character: char| character.is_ascii_alphanumeric() || "+-.".contains(character);
    let is_scheme = scheme.len() > 1 && scheme.starts_with(|first: char| first.is_ascii_alphabetic());
    let is_url = rest.starts_with("//")
        || ["file", "memory", "postgres", "postgresql", "mysql", "mariadb"].contains(&scheme);
    (is_scheme && scheme.chars().all(is_word) && is_url).then_some(scheme)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path_of(given: &str) -> PathBuf {
        given.parse::<Location>().unwrap().path
    }

    /// S4: a path and a URL name the same file.
    #[test]
    fn a_path_and_a_url_name_the_same_file() {
        assert_eq!(path_of("shop.db"), PathBuf::from("shop.db"));
        assert_eq!(path_of("sqlite:shop.db"), PathBuf::from("shop.db"));
        assert_eq!(path_of("sqlite:///var/shop.db"), PathBuf::from("/var/shop.db"));
        assert_eq!(path_of("sqlite:shop.db?mode=rwc"), PathBuf::from("shop.db"));
    }

    #[test]
    fn a_colon_makes_no_url() {
        assert_eq!(path_of("C:\\shop.db"), PathBuf::from("C:\\shop.db"));
        assert_eq!(path_of("2026-03-01T12:00.db"), PathBuf::from("2026-03-01T12:00.db"));
    }

    #[test]
    fn an_unknown_scheme_is_answered_with_the_known_ones_and_without_the_password() {
        let refused = "postgres://shop:secret@localhost/shop".parse::<Location>().unwrap_err().to_string();

        assert_eq!(refused, "unknown scheme `postgres`; known are `sqlite:PATH` and a plain path");
    }
}
