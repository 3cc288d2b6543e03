//! `pillarbox resume`: letting events of a route go on.

use std::fmt::Write;

use clap::Args;
use pillarbox::store::{Administration, PausedRoute};
use pillarbox_any::AnyStore;
use serde::Serialize;

use super::named::Named;
use crate::command;
use crate::database::{Database, Opened};
use crate::{figure, terminal};

const EXAMPLES: &str = "\
Examples:
  pillarbox resume --db shop.db orders
  pillarbox resume --db shop.db --all
  pillarbox resume --db shop.db orders --json
";

/// Resume routes that are paused: their events go on at once, in their order
///
/// Every relay sees it within seconds. For keys that are parked see `pillarbox keys resume`.
#[derive(Args, Debug)]
#[command(after_help = command::help(EXAMPLES))]
pub(crate) struct Resume {
    #[command(flatten)]
    database: Database,

    #[command(flatten)]
    named: Named,

    /// All that are paused now
    #[arg(long, id = "without_names", conflicts_with = "routes")]
    all: bool,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Resumed {
    database: String,
    routes: Vec<ResumedNow>,
}

#[derive(Serialize)]
struct ResumedNow {
    route: String,
    /// False if it was not paused.
    was_paused: bool,
    /// Events that waited for it and can go on.
    recalled: u64,
}

impl Resume {
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        let Opened { store, name, .. } = self.database.open().await?;
        let mut routes = Vec::new();
        for route in self.meant(&store).await? {
            let was_paused = store.resume_route(&route).await?;
            let recalled = PausedRoute::recall(&store, &route).await?;
            routes.push(ResumedNow { route, was_paused, recalled });
        }
        store.close().await;
        if self.json {
            return terminal::json(&Resumed { database: name, routes });
        }
        terminal::print(&text(&routes)?)
    }

    /// The names of the routes. One that is paused may have left the file.
    async fn meant(&self, store: &AnyStore) -> anyhow::Result<Vec<String>> {
        let paused = store.paused_routes().await?;
        if self.all {
            return Ok(paused.into_iter().map(|route| route.name).collect());
        }
        let known: Vec<&str> = paused.iter().map(|route| route.name.as_str()).collect();
        self.named.check(&known)?;
        Ok(self.named.routes.clone())
    }
}

fn text(routes: &[ResumedNow]) -> Result<String, std::fmt::Error> {
    if routes.is_empty() {
        return Ok("no route is paused\n".to_owned());
    }
    let mut text = String::new();
    for ResumedNow { route, was_paused, recalled } in routes {
        let route = figure::plain(route);
        match was_paused {
            true => write!(text, "resumed route `{route}`")?,
            false => write!(text, "route `{route}` was not paused")?,
        }
        match recalled {
            0 => writeln!(text)?,
            events => writeln!(text, "; {} that waited for it can go on", figure::events(*events))?,
        }
    }
    Ok(text)
}
