//! `pillarbox tail`: events as they are written and delivered.

mod filter;
mod happening;
mod start;
mod watch;

use std::time::Duration;

use clap::Args;
use pillarbox::store::{Administration, Outline, Page, StoreError};
use pillarbox_any::AnyStore;
use tokio::signal::unix::{SignalKind, signal};

use self::filter::Filter;
use self::happening::Happening;
use self::start::Start;
use self::watch::Watch;
use crate::age::Age;
use crate::command;
use crate::database::{Database, Opened};
use crate::{figure, terminal};

/// Rows that are read at once.
const AT_ONCE: usize = 1_000;

const EXAMPLES: &str = "\
Examples:
  pillarbox tail --db shop.db
  pillarbox tail --db shop.db -n 20 --type 'Order*'
  pillarbox tail --db shop.db --since 10m --key order-17
  pillarbox tail --db shop.db --once --json | jq -r .event_id
";

/// Show events as they are written, and what becomes of them, until you press ctrl-c
///
/// A line tells that an event was written, delivered, failed (and is tried again), waits, or is dead. Payloads are not
/// shown unless you ask. It reads by number, from where it stands, and looks at what it has shown and is not done. What is
/// written and deleted again between two looks (`delete_done`) is not seen.
#[derive(Args, Debug)]
#[command(after_help = command::help(EXAMPLES))]
pub(crate) struct Tail {
    #[command(flatten)]
    database: Database,

    #[command(flatten)]
    start: Start,

    #[command(flatten)]
    filter: Filter,

    /// Show what there is, from the last ten events unless you say otherwise, and stop
    #[arg(long)]
    once: bool,

    /// How often to look
    #[arg(long, value_name = "TIME", default_value = "1s")]
    every: Age,

    /// Show the payload of each event that was written
    #[arg(long)]
    payload: bool,

    /// Print JSON, one object a line
    #[arg(long)]
    json: bool,
}

impl Tail {
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        let Opened { store, .. } = self.database.look().await?;
        let told = self.follow(&store).await;
        store.close().await;
        told
    }

    /// Tells of events until it is interrupted, or once.
    async fn follow(&self, store: &AnyStore) -> anyhow::Result<()> {
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut terminate = signal(SignalKind::terminate())?;
        let mut watch = self.start.watch(store, self.once).await?;
        let mut is_away = false;
        loop {
            let end = async {
                tokio::select! {
                    _ = interrupt.recv() => {}
                    _ = terminate.recv() => {}
                }
            };
            let look = async {
                let looked = self.look(store, &mut watch).await;
                if looked.is_ok() && !self.once {
                    tokio::time::sleep(self.every.duration.max(SHORTEST)).await;
                }
                looked
            };
            let looked = tokio::select! {
                biased;
                () = end => return Ok(()),
                looked = look => looked,
            };
            match looked {
                Ok(()) if self.once => return Ok(()),
                Ok(()) => is_away = false,
                Err(error) if self.once || !is_transient(&error) => return Err(error),
                Err(error) => {
                    if !is_away {
                        terminal::say(&format!("the database cannot be reached; trying again: {error:#}"));
                    }
                    is_away = true;
                    tokio::time::sleep(AWAY).await;
                }
            }
        }
    }

    /// Tells what is new: of events that are new, and of those that were told of before.
    async fn look(&self, store: &AnyStore, watch: &mut Watch) -> anyhow::Result<()> {
        let known = watch.open_numbers();
        loop {
            let page = store.outlines(Page { after: watch.highest(), limit: AT_ONCE }).await?;
            let is_last = page.len() < AT_ONCE;
            for outline in page {
                let happened = watch.came(&outline, |outline| self.filter.takes(outline));
                self.tell(store, &outline, happened).await?;
            }
            if is_last {
                break;
            }
        }
        for numbers in known.chunks(AT_ONCE) {
            let mut found = store.outlines_of(numbers).await?.into_iter().peekable();
            for &number in numbers {
                let row = found.next_if(|outline| outline.seq == number);
                match row {
                    Some(outline) => {
                        let happened = watch.came(&outline, |outline| self.filter.takes(outline));
                        self.tell(store, &outline, happened).await?;
                    }
                    None => {
                        if let Some(outline) = watch.vanished(number) {
                            self.tell(store, &outline, vec![Happening::Deleted]).await?;
                        }
                    }
                }
            }
        }
        self.admit_dropped(watch);
        Ok(())
    }

    async fn tell(
        &self,
        store: &AnyStore,
        outline: &Outline,
        happened: Vec<Happening>,
    ) -> anyhow::Result<()> {
        for happening in happened {
            let payload = match self.payload && happening == Happening::Written {
                true => store.find(&outline.event_id).await?.and_then(|stored| stored.event.ok()),
                false => None,
            };
            let payload = payload.as_ref().map(|event| event.payload());
            terminal::print(&match self.json {
                true => happening.json(outline, payload)?,
                false => happening.text(outline, payload),
            })?;
        }
        Ok(())
    }

    fn admit_dropped(&self, watch: &mut Watch) {
        let dropped = watch.take_dropped();
        if dropped > 0 {
            terminal::say(&format!(
                "too many events wait: what becomes of {} of them is not shown",
                figure::events(dropped)
            ));
        }
    }
}

/// However often somebody wants to look.
const SHORTEST: Duration = Duration::from_millis(50);

/// How long a database is left alone that could not be reached.
const AWAY: Duration = Duration::from_secs(1);

fn is_transient(error: &anyhow::Error) -> bool {
    error.downcast_ref::<StoreError>().is_some_and(StoreError::is_transient)
}
