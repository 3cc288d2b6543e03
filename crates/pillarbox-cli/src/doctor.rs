//! `pillarbox doctor`: what is wrong, or will be.

mod relay;
mod report;

use std::path::PathBuf;

use clap::Args;
use pillarbox::store::Health;

use self::report::{Report, Subject};
use crate::command;
use crate::database::{Database, Location, Tables};
use crate::exit::{Unusable, Verdict};

const EXAMPLES: &str = "\
Examples:
  pillarbox doctor --db postgres://shop@localhost/shop      one database
  pillarbox doctor --config pillarbox.toml                  all outboxes and sinks of a relay
  pillarbox doctor --config pillarbox.toml --strict         fail on warnings too
  pillarbox doctor --db shop.db --json | jq '.subjects[].checks[] | select(.health != \"ok\")'

What is looked at, what it means and what to do about it: docs/guide/doctor.md
";

/// Look at databases and brokers for what does not work, or weakens what is promised
///
/// Of a database: whether it can be reached, versions, clocks, indexes, bloat, open transactions, settings, and what waits
/// for somebody. Of a sink: whether its server can be reached, keeps what it acknowledges, and takes the largest event.
/// Nothing is changed. What cannot be looked at is unknown, with the privilege that is missing.
///
/// Exit code 1 if there is a problem; with `--strict` also if there is a warning, or something unknown.
#[derive(Args, Debug)]
#[command(after_help = command::help(EXAMPLES))]
pub(crate) struct Doctor {
    /// The database: a path, or a URL (`sqlite:PATH`, `postgres://…`, `mysql://…`); without `--config` by default
    /// `PILLARBOX_DB`
    #[arg(long, value_name = "URL|PATH")]
    db: Option<Location>,

    #[command(flatten)]
    tables: Tables,

    /// The configuration file of a relay; without `--db` and `PILLARBOX_DB` by default `PILLARBOX_CONFIG`
    #[arg(long, value_name = "FILE", conflicts_with_all = ["db", "schema", "prefix"])]
    config: Option<PathBuf>,

    /// Fail on warnings and on what is unknown, too
    #[arg(long)]
    strict: bool,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// What is to be examined.
enum Patient {
    Database(Location),
    Relay(PathBuf),
}

impl Doctor {
    pub(crate) async fn run(self) -> anyhow::Result<Verdict> {
        let subjects = match self.patient()? {
            Patient::Database(db) => {
                let diagnosis = Database::new(db, self.tables.clone()).examine().await?;
                vec![Subject { kind: "database", name: diagnosis.database, checks: diagnosis.checks }]
            }
            Patient::Relay(file) => relay::examine(&file).await?,
        };
        let report = Report { subjects };
        report.print(self.json)?;
        let limit = if self.strict { Health::Unknown } else { Health::Problem };
        Ok(if report.worst() >= limit { Verdict::Bad } else { Verdict::Good })
    }

    fn patient(&self) -> anyhow::Result<Patient> {
        let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        match (&self.db, &self.config) {
            (Some(db), _) => Ok(Patient::Database(db.clone())),
            (None, Some(file)) => Ok(Patient::Relay(file.clone())),
            (None, None) => match (variable("PILLARBOX_DB"), variable("PILLARBOX_CONFIG")) {
                (Some(db), _) => Ok(Patient::Database(db.into())),
                (None, Some(file)) => Ok(Patient::Relay(file.into())),
                (None, None) => Err(Unusable(
                    "say what to examine: `--db URL` for a database, or `--config pillarbox.toml` for a relay's file"
                        .to_owned(),
                )
                .into()),
            },
        }
    }
}
