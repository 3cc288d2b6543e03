//! What happened in the demo, written down by those to whom it happened: one line each, in a file that
//! survives the death of the process. The outbox knows nothing of it.

use std::collections::{HashMap, HashSet};
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use pillarbox::Timestamp;

/// Takes lines.
pub(super) struct Journal {
    file: Mutex<File>,
    incarnation: u32,
}

impl Journal {
    /// Opens the journal at `path` for the process number `incarnation` of this demo.
    pub(super) fn open(path: &Path, incarnation: u32) -> std::io::Result<Self> {
        let file = OpenOptions::new().create(true).append(true).open(path)?;
        Ok(Self { file: Mutex::new(file), incarnation })
    }

    /// The transaction of this event was committed just now.
    pub(super) fn committed(&self, event_id: &str) -> std::io::Result<()> {
        self.append(&format!("committed {event_id} {}\n", now()))
    }

    /// The transaction of the order with this number was rolled back just now.
    pub(super) fn rolled_back(&self, number: u64) -> std::io::Result<()> {
        self.append(&format!("rolled-back {number} {}\n", now()))
    }

    /// A listener was handed this event at `at`, and has done its work or failed.
    pub(super) fn tried(
        &self,
        event_id: &str,
        at: i64,
        attempt: u32,
        delivered: bool,
    ) -> std::io::Result<()> {
        let word = if delivered { "delivered" } else { "failed" };
        self.append(&format!("{word} {event_id} {at} {attempt} {}\n", self.incarnation))
    }

    /// One write for the whole line: what the system has taken, SIGKILL does not take back.
    fn append(&self, line: &str) -> std::io::Result<()> {
        self.file.lock().unwrap_or_else(PoisonError::into_inner).write_all(line.as_bytes())
    }
}

/// Microseconds since 1970.
pub(super) fn now() -> i64 {
    Timestamp::from(SystemTime::now()).as_micros()
}

/// All that the journal says so far.
#[derive(Debug, Default)]
pub(super) struct Records {
    /// When each event was committed.
    pub(super) committed: HashMap<String, i64>,
    /// The numbers of orders that came to nothing; after a crash one may do so again.
    pub(super) rolled_back: HashSet<u64>,
    pub(super) tries: Vec<Try>,
    /// How many of the tries succeeded.
    pub(super) deliveries: u64,
}

/// One call of a listener.
#[derive(Debug)]
pub(super) struct Try {
    pub(super) event_id: String,
    /// When the listener was called.
    pub(super) at: i64,
    pub(super) attempt: u32,
    pub(super) incarnation: u32,
    pub(super) delivered: bool,
}

impl Records {
    fn read_line(&mut self, line: &str) -> Option<()> {
        let mut words = line.split(' ');
        let (word, event_id, at) = (words.next()?, words.next()?.to_owned(), words.next()?.parse().ok()?);
        match word {
            "committed" => {
                self.committed.insert(event_id, at);
                return Some(());
            }
            "rolled-back" => {
                self.rolled_back.insert(event_id.parse().ok()?);
                return Some(());
            }
            _ => {}
        }
        let (attempt, incarnation) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        let delivered = word == "delivered";
        self.deliveries += u64::from(delivered);
        self.tries.push(Try { event_id, at, attempt, incarnation, delivered });
        Some(())
    }
}

/// Reads a journal that is being written.
pub(super) struct Reader {
    file: File,
    /// The beginning of a line whose end has not been seen.
    rest: Vec<u8>,
    pub(super) records: Records,
}

impl Reader {
    /// Opens the journal at `path`, which may be empty.
    pub(super) fn open(path: &Path) -> std::io::Result<Self> {
        Ok(Self { file: File::open(path)?, rest: Vec::new(), records: Records::default() })
    }

    /// Reads what has come since the last time. A line without an end waits for it: whoever was killed while
    /// writing it has not returned from his work.
    pub(super) fn read_on(&mut self) -> anyhow::Result<()> {
        self.file.read_to_end(&mut self.rest)?;
        let Some(end) = self.rest.iter().rposition(|&byte| byte == b'\n') else { return Ok(()) };
        let lines: Vec<u8> = self.rest.drain(..=end).collect();
        for line in std::str::from_utf8(&lines)?.lines() {
            let read = self.records.read_line(line);
            anyhow::ensure!(read.is_some(), "the journal of the demo has a line that is none: `{line}`");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_while_it_is_written() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("journal");
        let journal = Journal::open(&path, 2).unwrap();
        let mut reader = Reader::open(&path).unwrap();

        journal.committed("a").unwrap();
        reader.read_on().unwrap();
        journal.tried("a", 5, 1, false).unwrap();
        journal.tried("a", 9, 2, true).unwrap();
        journal.append("delivered b 1").unwrap();
        reader.read_on().unwrap();

        assert!(reader.records.committed.contains_key("a"));
        let tries: Vec<_> = reader
            .records
            .tries
            .iter()
            .map(|one| (one.at, one.attempt, one.incarnation, one.delivered))
            .collect();
        assert_eq!(tries, [(5, 1, 2, false), (9, 2, 2, true)]);
    }
}
