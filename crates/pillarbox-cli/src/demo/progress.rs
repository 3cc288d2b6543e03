//! What people see while the demo runs: a bar in a terminal, a line now and then elsewhere.

use std::path::Path;
use std::time::{Duration, Instant};

use indicatif::ProgressBar;

use super::journal::Reader;
use crate::{figure, terminal};

/// How often there is a line when there is no bar.
const LINE_EVERY: Duration = Duration::from_secs(1);
/// How often to look while nobody is in a hurry.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Follows the journal and tells about it.
pub(super) struct Progress {
    reader: Reader,
    orders: u64,
    bar: ProgressBar,
    start: Instant,
    last_line: Instant,
}

impl Progress {
    /// Follows the journal at `journal` of a demo with this many orders.
    pub(super) fn new(journal: &Path, orders: u64) -> std::io::Result<Self> {
        let bar = terminal::bar(orders, "  {bar:20} {msg}");
        let now = Instant::now();
        Ok(Self { reader: Reader::open(journal)?, orders, bar, start: now, last_line: now })
    }

    /// Follows the journal for ever.
    pub(super) async fn follow(&mut self) -> anyhow::Result<std::convert::Infallible> {
        loop {
            self.look()?;
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// Reads on, shows where things stand, and returns how often listeners were called so far.
    pub(super) fn look(&mut self) -> anyhow::Result<u64> {
        self.reader.read_on()?;
        let records = &self.reader.records;
        let calls = records.tries.len() as u64;
        if terminal::is_watched() {
            self.bar.set_position(self.placed());
            self.bar.set_message(self.line());
        } else if self.last_line.elapsed() >= LINE_EVERY {
            self.last_line = Instant::now();
            terminal::say(&format!("  {:>3} s  {}", self.start.elapsed().as_secs(), self.line()));
        }
        Ok(calls)
    }

    /// Orders whose transaction has ended one way or the other.
    fn placed(&self) -> u64 {
        let records = &self.reader.records;
        (records.committed.len() + records.rolled_back.len()) as u64
    }

    fn line(&self) -> String {
        let records = &self.reader.records;
        let failures = records.tries.len() as u64 - records.deliveries;
        format!(
            "{} of {} orders, {} deliveries, {} failures",
            figure::count(self.placed()),
            figure::count(self.orders),
            figure::count(records.deliveries),
            figure::count(failures)
        )
    }

    /// Says something that is worth a line of its own.
    pub(super) fn say(&self, line: &str) {
        self.bar.suspend(|| terminal::say(line));
    }

    /// Takes the bar away and returns the journal, read to its end.
    pub(super) fn finish(mut self) -> anyhow::Result<Reader> {
        self.reader.read_on()?;
        self.bar.finish_and_clear();
        Ok(self.reader)
    }
}
