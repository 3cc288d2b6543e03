//! `pillarbox status --watch`: one reading after the other.

use std::time::{Duration, SystemTime};

use pillarbox::Timestamp;
use pillarbox_any::AnyStore;
use serde::Serialize;

use super::reading::{Place, Rates, Reading, Shown};
use super::relay::RelayUrl;
use super::screen::Screen;
use crate::age::Age;
use crate::interrupt::Interrupt;
use crate::{figure, terminal};

/// The shortest pause between two readings.
const SHORTEST: Duration = Duration::from_millis(100);
/// How long the database may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// Reads how often to look.
pub(super) fn every(given: &str) -> Result<Age, String> {
    let age: Age = given.parse()?;
    if age.duration < SHORTEST {
        return Err("looking so often would keep the database busy; wait at least `100ms`".to_owned());
    }
    Ok(age)
}

/// An outbox that is watched.
pub(super) struct Watch {
    pub(super) store: AnyStore,
    pub(super) place: Place,
    pub(super) relay: Option<RelayUrl>,
    pub(super) every: Age,
    pub(super) json: bool,
}

/// What is printed as JSON, on one line.
#[derive(Serialize)]
struct Seen<'a> {
    at: String,
    /// Why the reading failed: nothing is known then but this.
    error: Option<&'a str>,
    /// `null` as long as there was no reading before.
    rates: Option<&'a Rates>,
    #[serde(flatten)]
    reading: Option<Shown<'a>>,
}

impl Watch {
    /// Shows readings until the user has seen enough. One that fails is unknown, and tried again.
    pub(super) async fn run(self) -> anyhow::Result<()> {
        let interrupt = Interrupt::listen()?;
        let screen = if self.json { None } else { Screen::open()? };
        let (mut before, mut page) = (None, String::new());
        loop {
            let reading = tokio::select! {
                biased;
                () = interrupt.heard() => break,
                reading = self.read() => reading,
            };
            let rates = match (&reading, &before) {
                (Ok(reading), Some(before)) => reading.since(before),
                _ => None,
            };
            match &screen {
                Some(screen) => {
                    page = self.page(&reading, rates.as_ref())?;
                    screen.draw(&page)?;
                }
                None => terminal::print(&self.line(&reading, rates.as_ref())?)?,
            }
            before = reading.ok().or(before);
            if !interrupt.pause(self.every.duration).await {
                break;
            }
        }
        if let Some(screen) = screen {
            // The last one stays on the page of the shell.
            drop(screen);
            terminal::print(&page)?;
        }
        self.store.close().await;
        Ok(())
    }

    async fn read(&self) -> Result<Reading, String> {
        let reading = Reading::take_in_turn(&self.store, self.relay.as_ref());
        match tokio::time::timeout(PATIENCE, reading).await {
            Ok(reading) => reading.map_err(|error| crate::exit::text(&error.into())),
            Err(_) => Err(format!("the database does not answer within {}", figure::time(PATIENCE))),
        }
    }

    /// A reading for a terminal.
    fn page(&self, reading: &Result<Reading, String>, rates: Option<&Rates>) -> anyhow::Result<String> {
        let head = format!("{}, every {}; Ctrl-C ends it\n", now(), self.every);
        Ok(match reading {
            Ok(reading) => format!("{head}{}", reading.table(&self.place, rates)?),
            Err(error) => {
                let Place { name, kind, .. } = &self.place;
                format!("{head}{name}, {kind}\n\n  unknown: {}\n", figure::plain(error))
            }
        })
    }

    /// A reading as a line.
    fn line(&self, reading: &Result<Reading, String>, rates: Option<&Rates>) -> anyhow::Result<String> {
        if self.json {
            let seen = Seen {
                at: now(),
                error: reading.as_ref().err().map(String::as_str),
                rates,
                reading: reading.as_ref().ok().map(|reading| reading.shown(&self.place)),
            };
            return Ok(format!("{}\n", serde_json::to_string(&seen)?));
        }
        Ok(match reading {
            Ok(reading) => format!("{}  {}\n", now(), reading.line(rates)),
            Err(error) => format!("{}  unknown: {}\n", now(), figure::plain(error)),
        })
    }
}

fn now() -> String {
    Timestamp::from(SystemTime::now()).to_string()
}
