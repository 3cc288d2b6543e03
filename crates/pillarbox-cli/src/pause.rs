//! `pillarbox pause` and `pillarbox resume`: stopping what goes by a route, and letting it go on.

mod named;
mod resume;

use std::fmt::Write;

use clap::Args;
use pillarbox::store::{Administration, PausedRoute};
use serde::Serialize;

use self::named::Named;
pub(crate) use self::resume::Resume;
use crate::command;
use crate::database::{Database, Opened};
use crate::{figure, terminal};

const EXAMPLES: &str = "\
Examples:
  pillarbox pause --db shop.db orders
  pillarbox pause --db shop.db orders --config pillarbox.toml     refused if no such route is there
  pillarbox pause --db shop.db --list
  pillarbox resume --db shop.db orders
";

/// Pause routes: their events wait, until you resume them
///
/// It is kept in the database. Every relay on it sees it within seconds, and after a restart before it delivers anything.
/// What is under way is delivered; what comes then waits, and spends no attempt. Where order is kept, so do events of other
/// routes that follow in the same keys. Without --config any name is taken, for a route that may come.
#[derive(Args, Debug)]
#[command(after_help = command::help(EXAMPLES))]
pub(crate) struct Pause {
    #[command(flatten)]
    database: Database,

    #[command(flatten)]
    named: Named,

    /// Show which routes are paused
    #[arg(long, id = "without_names", conflicts_with = "routes")]
    list: bool,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Paused {
    database: String,
    /// Those that were named.
    routes: Vec<PausedNow>,
    /// Whether the names were looked up in a relay's file.
    is_checked: bool,
}

#[derive(Serialize)]
struct PausedNow {
    route: String,
    /// False if it was paused already.
    is_new: bool,
}

#[derive(Serialize)]
struct Listed {
    database: String,
    paused_routes: Vec<Line>,
}

/// A paused route as it is printed in JSON.
#[derive(Serialize)]
pub(crate) struct Line {
    route: String,
    /// `null` if somebody wrote it by hand.
    since: Option<String>,
}

impl Line {
    pub(crate) fn of(route: &PausedRoute) -> Self {
        Self { route: route.name.clone(), since: route.since.map(|since| since.to_string()) }
    }
}

impl Pause {
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        self.named.check(&[])?;
        let Opened { store, name, .. } = self.database.look_or_open(self.list).await?;
        if self.list {
            let paused = store.paused_routes().await?;
            store.close().await;
            return self.print_list(name, &paused);
        }
        let mut routes = Vec::new();
        for route in &self.named.routes {
            routes.push(PausedNow { route: route.clone(), is_new: store.pause_route(route).await? });
        }
        store.close().await;
        let paused = Paused { database: name, routes, is_checked: self.named.is_checked() };
        if self.json {
            return terminal::json(&paused);
        }
        terminal::print(&text(&paused)?)
    }

    fn print_list(&self, database: String, paused: &[PausedRoute]) -> anyhow::Result<()> {
        if self.json {
            return terminal::json(&Listed {
                database,
                paused_routes: paused.iter().map(Line::of).collect(),
            });
        }
        terminal::print(&match paused {
            [] => "no route is paused\n".to_owned(),
            paused => table(paused)?,
        })
    }
}

fn text(paused: &Paused) -> Result<String, std::fmt::Error> {
    let mut text = String::new();
    for PausedNow { route, is_new } in &paused.routes {
        match is_new {
            true => {
                writeln!(text, "paused route `{route}`: its events wait until `pillarbox resume {route}`")?
            }
            false => writeln!(text, "route `{route}` was paused already")?,
        }
    }
    if !paused.is_checked {
        writeln!(text, "whether there is such a route was not looked up; --config FILE does")?;
    }
    Ok(text)
}

/// The paused routes, for people.
pub(crate) fn table(paused: &[PausedRoute]) -> Result<String, std::fmt::Error> {
    let width = paused.iter().map(|route| figure::plain(&route.name).chars().count()).max().unwrap_or(0);
    let mut table = "routes that are paused; `pillarbox resume` lets their events go on\n".to_owned();
    for route in paused {
        let since = route.since.map_or_else(|| "–".to_owned(), |since| since.to_string());
        writeln!(table, "  {:<width$}  since {since}", figure::plain(&route.name))?;
    }
    Ok(table)
}
