//! Which database a command works on, and whether it can.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::Context;
use clap::Args;
use pillarbox_sqlite::{SqliteOptions, SqliteStore};
use sqlx::sqlite::SqliteConnectOptions;

use crate::exit::Unusable;

/// What every SQLite file begins with.
const MAGIC: &[u8] = b"SQLite format 3\0";

/// Where the outbox is.
#[derive(Args, Clone, Debug)]
pub(crate) struct Database {
    /// The database: a path, or a URL that begins with `sqlite:`
    #[arg(long, env = "PILLARBOX_DB", value_name = "PATH|URL", value_parser = Location::from_str)]
    db: Location,

    /// What stands before the names of the outbox's tables
    #[arg(long, default_value = "", hide_default_value = true)]
    prefix: String,
}

impl Database {
    /// The file.
    pub(crate) fn path(&self) -> &Path {
        self.db.path()
    }

    /// Opens an outbox that exists, and returns its schema version too.
    pub(crate) async fn open(&self) -> anyhow::Result<(SqliteStore, u32)> {
        let path = self.path();
        if !path.exists() {
            let path = path.display();
            return Err(Unusable(format!("no such file: `{path}`; `pillarbox migrate` creates it")).into());
        }
        let store = self.connect(false).await?;
        let version = store.check().await.with_context(|| path.display().to_string())?;
        Ok((store, version))
    }

    /// Opens a database that may have no outbox yet, or not even a file.
    pub(crate) async fn open_or_create(&self) -> anyhow::Result<SqliteStore> {
        self.connect(true).await
    }

    async fn connect(&self, create: bool) -> anyhow::Result<SqliteStore> {
        self.db.check()?;
        let options = self.db.options().prefix(&self.prefix).create_if_missing(create);
        Ok(options.watch(false).max_connections(2).connect().await?)
    }
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
