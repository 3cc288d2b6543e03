//! What a store finds out about its database, for operators.

use std::fmt;

/// What was found out about a database: one check after the other, in the order in which they were made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnosis {
    /// The database, for people and without a password: `db.example:5432/shop`, `shop.db`.
    pub database: String,
    /// What was looked at.
    pub checks: Vec<Check>,
}

impl Diagnosis {
    /// How the worst of the checks ended; [`Health::Ok`] without any.
    pub fn worst(&self) -> Health {
        self.checks.iter().map(|check| check.health).max().unwrap_or(Health::Ok)
    }
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// What was looked at, in one word: `clock`, `indexes`.
    pub name: &'static str,
    /// How it is.
    pub health: Health,
    /// What was found, with its figure.
    pub found: String,
    /// What to do about it, if something is to be done.
    pub remedy: Option<String>,
}

/// How a [`Check`] ended, from good to bad.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Health {
    /// It is as it should be.
    Ok,
    /// It could not be looked at, because a privilege is missing or the database did not answer.
    Unknown,
    /// The outbox works, and something weakens what it promises, slows it down, or waits for somebody.
    Warning,
    /// Something does not work, or can lose what was committed.
    Problem,
}

impl Health {
    /// The word that stands for it: `ok`, `unknown`, `warning`, `problem`.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Unknown => "unknown",
            Self::Warning => "warning",
            Self::Problem => "problem",
        }
    }
}

impl fmt::Display for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

impl Check {
    /// Something that is as it should be.
    pub fn ok(name: &'static str, found: impl Into<String>) -> Self {
        Self { name, health: Health::Ok, found: found.into(), remedy: None }
    }

    /// Something that could not be looked at.
    pub fn unknown(name: &'static str, found: impl Into<String>) -> Self {
        Self { name, health: Health::Unknown, found: found.into(), remedy: None }
    }

    /// Something that the outbox works with, but not well.
    pub fn warning(name: &'static str, found: impl Into<String>) -> Self {
        Self { name, health: Health::Warning, found: found.into(), remedy: None }
    }

    /// Something that does not work, or can lose events.
    pub fn problem(name: &'static str, found: impl Into<String>) -> Self {
        Self { name, health: Health::Problem, found: found.into(), remedy: None }
    }

    /// Sets what to do about it.
    #[must_use]
    pub fn remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = Some(remedy.into());
        self
    }
}

impl fmt::Display for Check {
    /// `clock: the database is 3.2 s ahead; synchronise both clocks`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.name, self.found)?;
        match &self.remedy {
            Some(remedy) => write!(f, "; {remedy}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn worst_check_counts() {
        let diagnosis =
            |checks: &[Check]| Diagnosis { database: "shop.db".to_owned(), checks: checks.to_vec() };
        let (ok, unknown) = (Check::ok("clock", "none"), Check::unknown("bloat", "hidden"));
        let (warning, problem) = (Check::warning("dead", "17"), Check::problem("schema", "none"));

        assert_eq!(diagnosis(&[]).worst(), Health::Ok);
        assert_eq!(diagnosis(&[unknown.clone(), ok.clone()]).worst(), Health::Unknown);
        assert_eq!(diagnosis(&[warning.clone(), unknown]).worst(), Health::Warning);
        assert_eq!(diagnosis(&[ok, problem, warning]).worst(), Health::Problem);
    }

    #[test]
    fn remedy_stands_behind_what_was_found() {
        let check = Check::problem("schema", "there is no outbox").remedy("run `pillarbox migrate`");

        assert_eq!(check.to_string(), "schema: there is no outbox; run `pillarbox migrate`");
    }
}
