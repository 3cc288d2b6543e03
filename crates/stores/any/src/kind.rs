//! Which database a URL is about.

use std::borrow::Cow;
use std::fmt;

use pillarbox::spelling::nearest;
use pillarbox::store::StoreError;

/// A kind of database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A SQLite file.
    Sqlite,
    /// A PostgreSQL server.
    Postgres,
    /// A MySQL or MariaDB server.
    MySql,
}

/// Every scheme, how it is written, and what it means.
const SCHEMES: [(&str, &str, Kind); 5] = [
    ("sqlite", "sqlite:PATH", Kind::Sqlite),
    ("postgres", "postgres://…", Kind::Postgres),
    ("postgresql", "postgresql://…", Kind::Postgres),
    ("mysql", "mysql://…", Kind::MySql),
    ("mariadb", "mariadb://…", Kind::MySql),
];

/// Schemes that people know from elsewhere and that, unlike paths, need no `//`.
const OF_OTHERS: [&str; 3] = ["file", "jdbc", "memory"];

impl Kind {
    /// The database that a URL, or a plain path, is about.
    ///
    /// An unknown scheme is answered with the known ones. Nothing but the scheme is repeated in an error, as the
    /// rest may have a password in it; for the same reason what reads like `user:password@host` is refused as a
    /// path (`./user:password@host` is one).
    pub fn of(url: &str) -> Result<Self, StoreError> {
        let Some((scheme, rest)) = split(url) else { return path(url) };
        let scheme = scheme.to_ascii_lowercase();
        match SCHEMES.iter().find(|(known, ..)| *known == scheme) {
            Some((.., Self::Sqlite)) => path(rest.trim_start_matches("//")),
            Some((.., kind)) => Ok(*kind),
            None => Err(unknown(&scheme)),
        }
    }

    /// The word that stands for it on a command line and in JSON: `sqlite`, `postgres`, `mysql`.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Sqlite => "sqlite",
            Self::Postgres => "postgres",
            Self::MySql => "mysql",
        }
    }

    /// Why this build cannot connect to it.
    pub(crate) fn absent(self) -> StoreError {
        let feature = self.word();
        StoreError::Config(format!(
            "this program was built without {self}; build it with the feature `{feature}` of `pillarbox-any`"
        ))
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Sqlite => "SQLite",
            Self::Postgres => "PostgreSQL",
            Self::MySql => "MySQL/MariaDB",
        })
    }
}

/// `url` with its scheme in small letters, as the stores read it.
pub(crate) fn normal(url: &str) -> Cow<'_, str> {
    match split(url) {
        Some((scheme, rest)) if scheme.contains(|letter: char| letter.is_ascii_uppercase()) => {
            format!("{}:{rest}", scheme.to_ascii_lowercase()).into()
        }
        _ => url.into(),
    }
}

/// Scheme and rest of a URL; `None` for paths, also those with a colon or a drive letter in them.
fn split(url: &str) -> Option<(&str, &str)> {
    let (scheme, rest) = url.split_once(':')?;
    let is_word = |character: char| character.is_ascii_alphanumeric() || "+-.".contains(character);
    let is_scheme = scheme.len() > 1
        && scheme.starts_with(|first: char| first.is_ascii_alphabetic())
        && scheme.chars().all(is_word);
    let lower = scheme.to_ascii_lowercase();
    let is_meant = rest.starts_with("//") || OF_OTHERS.contains(&&*lower) || meant(&lower).is_some();
    (is_scheme && is_meant).then_some((scheme, rest))
}

fn path(path: &str) -> Result<Kind, StoreError> {
    if path.is_empty() {
        return Err(StoreError::Config(format!("no database is named; give one of {}", known())));
    }
    let first = path.trim_start_matches("//").split('/').next().unwrap_or(path);
    let has_password = match (first.find(':'), first.rfind('@')) {
        // A single letter before the colon is a drive.
        (Some(colon), Some(at)) => colon > 1 && colon < at,
        _ => false,
    };
    if has_password {
        return Err(StoreError::Config(format!(
            "this reads like a URL without its scheme; give one of {}, with `./` before a path that has a colon in it",
            known()
        )));
    }
    Ok(Kind::Sqlite)
}

fn unknown(scheme: &str) -> StoreError {
    let hint = meant(scheme).map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
    StoreError::Config(format!("unknown scheme `{scheme}`; known are {}{hint}", known()))
}

/// The scheme that was probably meant.
fn meant(scheme: &str) -> Option<&'static str> {
    nearest(scheme, &SCHEMES.map(|(known, ..)| known))
}

fn known() -> String {
    let written = SCHEMES.map(|(_, written, _)| format!("`{written}`"));
    format!("{} and a plain path", written.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: &str =
        "`sqlite:PATH`, `postgres://…`, `postgresql://…`, `mysql://…`, `mariadb://…` and a plain path";

    fn refused(url: &str) -> String {
        Kind::of(url).unwrap_err().to_string()
    }

    /// S4: the scheme says which database it is, in capitals too.
    #[test]
    fn the_scheme_chooses_the_database() {
        for (url, kind) in [
            ("sqlite:shop.db", Kind::Sqlite),
            ("sqlite:///var/shop.db?mode=rw", Kind::Sqlite),
            ("postgres://shop@localhost/shop", Kind::Postgres),
            ("postgresql:///shop?host=/run", Kind::Postgres),
            ("POSTGRES://localhost/shop", Kind::Postgres),
            ("mysql://shop:secret@localhost/shop", Kind::MySql),
            ("mariadb://localhost/shop", Kind::MySql),
        ] {
            assert_eq!(Kind::of(url).unwrap(), kind, "{url}");
        }
    }

    #[test]
    fn a_path_is_a_sqlite_file_whatever_is_in_it() {
        for path in
            ["shop.db", "/var/lib/shop.db", "C:\\shop@home.db", "2026-03-01T12:00.db", "a:b", "./a:b@c", "@"]
        {
            assert_eq!(Kind::of(path).unwrap(), Kind::Sqlite, "{path}");
            assert_eq!(normal(path), path);
        }
    }

    /// S4: an unknown scheme is answered with the known ones, and one that is misspelt with the right one.
    #[test]
    fn an_unknown_scheme_is_answered_with_the_known_ones() {
        assert_eq!(refused("redis://localhost"), format!("unknown scheme `redis`; known are {KNOWN}"));
        assert_eq!(refused("file:shop.db"), format!("unknown scheme `file`; known are {KNOWN}"));
        for (url, meant) in [
            ("postgress://localhost/shop", "postgres"),
            ("postgresqll://localhost/shop", "postgresql"),
            ("mysq://localhost/shop", "mysql"),
            ("MariaBD://localhost/shop", "mariadb"),
            ("sqllite:shop.db", "sqlite"),
            ("sqlite3:shop.db", "sqlite"),
        ] {
            let answer = refused(url);
            assert!(answer.ends_with(&format!("{KNOWN}; did you mean `{meant}`?")), "{answer}");
        }
    }

    /// S4: nothing of a URL that is refused is shown but its scheme.
    #[test]
    fn a_password_is_not_repeated() {
        for url in [
            "shop:secret@localhost/shop",
            "//shop:secret@localhost/shop",
            "sqlite://shop:secret@localhost/shop",
            "sqlite:shop:secret@localhost/shop",
            "redis://shop:secret@localhost",
            "posgres:shop:secret@localhost",
        ] {
            let answer = refused(url);
            assert!(answer.contains(KNOWN) && !answer.contains("secret"), "{answer}");
        }
    }

    #[test]
    fn nothing_is_no_database() {
        for nothing in ["", "sqlite:", "sqlite://"] {
            assert_eq!(refused(nothing), format!("no database is named; give one of {KNOWN}"));
        }
    }

    #[test]
    fn schemes_in_capitals_reach_the_stores_in_small_letters() {
        assert_eq!(normal("PostgreSQL://Shop:Secret@localhost/"), "postgresql://Shop:Secret@localhost/");
        assert_eq!(normal("sqlite:SHOP.db"), "sqlite:SHOP.db");
    }

    #[test]
    fn a_database_that_was_not_built_in_is_said_to_be_missing() {
        let text = "this program was built without PostgreSQL; build it with the feature `postgres` of `pillarbox-any`";
        assert_eq!(Kind::Postgres.absent().to_string(), text);
    }
}
