//! What was found, as text and as JSON.

use std::fmt::{self, Write};

use pillarbox::store::{Check, Health};
use serde::Serialize;

use crate::{figure, terminal};

/// Everything that was examined.
pub(super) struct Report {
    pub(super) subjects: Vec<Subject>,
}

/// One thing that was examined: a database, a file, an outbox, a sink.
pub(super) struct Subject {
    pub(super) kind: &'static str,
    /// Which one; without a password.
    pub(super) name: String,
    pub(super) checks: Vec<Check>,
}

#[derive(Serialize)]
struct Shown<'a> {
    worst: &'static str,
    ok: usize,
    unknown: usize,
    warnings: usize,
    problems: usize,
    subjects: Vec<ShownSubject<'a>>,
}

#[derive(Serialize)]
struct ShownSubject<'a> {
    /// `database`, `file`, `outbox` or `sink`.
    kind: &'static str,
    name: &'a str,
    checks: Vec<ShownCheck<'a>>,
}

#[derive(Serialize)]
struct ShownCheck<'a> {
    name: &'static str,
    /// `ok`, `unknown`, `warning` or `problem`.
    health: &'static str,
    found: &'a str,
    /// `null` if nothing is to be done, or `found` says it.
    remedy: Option<&'a str>,
}

impl Report {
    /// How the worst check ended.
    pub(super) fn worst(&self) -> Health {
        self.checks().map(|check| check.health).max().unwrap_or(Health::Ok)
    }

    pub(super) fn print(&self, json: bool) -> anyhow::Result<()> {
        if json { terminal::json(&self.shown()) } else { terminal::print(&self.text()?) }
    }

    fn checks(&self) -> impl Iterator<Item = &Check> {
        self.subjects.iter().flat_map(|subject| &subject.checks)
    }

    fn count(&self, health: Health) -> usize {
        self.checks().filter(|check| check.health == health).count()
    }

    /// A line for each check under a line for each subject, and a line that counts.
    fn text(&self) -> Result<String, fmt::Error> {
        let mut text = String::new();
        let width = self.checks().map(|check| check.name.len()).max().unwrap_or(0);
        for Subject { kind, name, checks } in &self.subjects {
            writeln!(text, "{kind} {}", figure::plain(name))?;
            for Check { name, health, found, remedy } in checks {
                let remedy = remedy.as_ref().map(|remedy| format!("; {remedy}")).unwrap_or_default();
                let line = format!("  {health:<7}  {name:<width$}  {found}{remedy}");
                writeln!(text, "{}", figure::plain(&line))?;
            }
            writeln!(text)?;
        }
        let counts = [
            (self.count(Health::Ok), "ok", "ok"),
            (self.count(Health::Unknown), "unknown", "unknown"),
            (self.count(Health::Warning), "warning", "warnings"),
            (self.count(Health::Problem), "problem", "problems"),
        ];
        let counts = counts.iter().filter(|(count, ..)| *count > 0);
        let counts =
            counts.map(|(count, one, many)| format!("{count} {}", if *count == 1 { one } else { many }));
        writeln!(text, "{}", counts.collect::<Vec<_>>().join(", "))?;
        Ok(text)
    }

    fn shown(&self) -> Shown<'_> {
        Shown {
            worst: self.worst().word(),
            ok: self.count(Health::Ok),
            unknown: self.count(Health::Unknown),
            warnings: self.count(Health::Warning),
            problems: self.count(Health::Problem),
            subjects: self.subjects.iter().map(ShownSubject::of).collect(),
        }
    }
}

impl<'a> ShownSubject<'a> {
    fn of(subject: &'a Subject) -> Self {
        let checks = subject.checks.iter().map(ShownCheck::of).collect();
        Self { kind: subject.kind, name: &subject.name, checks }
    }
}

impl<'a> ShownCheck<'a> {
    fn of(check: &'a Check) -> Self {
        Self {
            name: check.name,
            health: check.health.word(),
            found: &check.found,
            remedy: check.remedy.as_deref(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(checks: Vec<Check>) -> Report {
        Report { subjects: vec![Subject { kind: "database", name: "shop.db".to_owned(), checks }] }
    }

    #[test]
    fn each_check_is_one_line_with_its_remedy() {
        let report = report(vec![
            Check::ok("clock", "the same"),
            Check::warning("transactions", "pid 17 (`\u{1b}[2J`)").remedy("end it"),
            Check::problem("schema", "none"),
        ]);

        assert_eq!(
            report.text().unwrap(),
            "database shop.db\n  ok       clock         the same\n  warning  transactions  pid 17 (`\\u{1b}[2J`); end it\n  \
             problem  schema        none\n\n1 ok, 1 warning, 1 problem\n"
        );
        assert_eq!(report.worst(), Health::Problem);
    }

    #[test]
    fn nothing_is_worse_than_ok_where_nothing_was_looked_at() {
        assert_eq!(report(Vec::new()).worst(), Health::Ok);
    }
}
