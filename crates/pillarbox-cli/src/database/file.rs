//! A SQLite file as the user named it.

use std::io::Read;
use std::path::PathBuf;
use std::str::FromStr;

use anyhow::Context;
use pillarbox_any::Kind;
use pillarbox_sqlite::{SqliteOptions, SqliteStore};
use sqlx::sqlite::SqliteConnectOptions;

use crate::exit::Unusable;

/// What every SQLite file begins with.
const MAGIC: &[u8] = b"SQLite format 3\0";

/// A SQLite file, which may not exist yet.
#[derive(Clone, Debug)]
pub(crate) struct SqliteFile {
    given: String,
    path: PathBuf,
}

impl SqliteFile {
    /// The file `path`.
    pub(crate) fn of(path: PathBuf) -> Self {
        Self { given: path.to_string_lossy().into_owned(), path }
    }

    /// The file, for people.
    pub(crate) fn name(&self) -> String {
        self.path.display().to_string()
    }

    /// How it was named, for another process to name it so too.
    pub(crate) fn given(&self) -> &str {
        &self.given
    }

    pub(crate) fn options(&self) -> SqliteOptions {
        SqliteStore::options(self.given.clone())
    }

    /// Refuses a file that does not exist.
    pub(crate) fn check_exists(&self) -> Result<(), Unusable> {
        match self.path.exists() {
            true => Ok(()),
            false => Err(Unusable(format!(
                "no such file: `{}`; `pillarbox migrate` creates it",
                self.path.display()
            ))),
        }
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

impl FromStr for SqliteFile {
    type Err = Unusable;

    /// Reads a path or a URL; of a URL that is refused nothing is repeated but the scheme, as it may hold a
    /// password.
    fn from_str(given: &str) -> Result<Self, Unusable> {
        let kind = Kind::of(given).map_err(|error| Unusable(error.to_string()))?;
        if kind != Kind::Sqlite {
            return Err(Unusable(format!(
                "this is a URL of {kind}, and a SQLite file is needed; give a path, or `sqlite:PATH`"
            )));
        }
        let Some(rest) = after_scheme(given) else { return Ok(Self::of(PathBuf::from(given))) };
        let given = format!("sqlite:{rest}");
        let options: SqliteConnectOptions = given
            .parse()
            .map_err(|_| Unusable("this is no URL of a SQLite database; write `sqlite:PATH`".to_owned()))?;
        Ok(Self { path: options.get_filename().to_owned(), given })
    }
}

/// What follows `sqlite:`, which may be in capitals; `None` for a plain path.
fn after_scheme(given: &str) -> Option<&str> {
    let (scheme, rest) = given.split_once(':')?;
    scheme.eq_ignore_ascii_case("sqlite").then_some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path_of(given: &str) -> PathBuf {
        given.parse::<SqliteFile>().unwrap().path
    }

    /// S4: a path and a URL name the same file.
    #[test]
    fn a_path_and_a_url_name_the_same_file() {
        assert_eq!(path_of("shop.db"), PathBuf::from("shop.db"));
        assert_eq!(path_of("sqlite:shop.db"), PathBuf::from("shop.db"));
        assert_eq!(path_of("SQLite:shop.db"), PathBuf::from("shop.db"));
        assert_eq!(path_of("sqlite:///var/shop.db"), PathBuf::from("/var/shop.db"));
        assert_eq!(path_of("sqlite:shop.db?mode=rwc"), PathBuf::from("shop.db"));
    }

    #[test]
    fn a_colon_makes_no_url() {
        assert_eq!(path_of("C:\\shop.db"), PathBuf::from("C:\\shop.db"));
        assert_eq!(path_of("2026-03-01T12:00.db"), PathBuf::from("2026-03-01T12:00.db"));
    }

    #[test]
    fn a_server_is_no_file() {
        let refused = "postgres://shop:secret@localhost/shop".parse::<SqliteFile>().unwrap_err().to_string();

        assert_eq!(
            refused,
            "this is a URL of PostgreSQL, and a SQLite file is needed; give a path, or `sqlite:PATH`"
        );
    }
}
