//! What a reader is told of a trial, and its end.

use std::fmt::Write;
use std::time::Duration;

use super::history::{History, How};
use super::judge::Verdict;

/// So many of each kind are shown; a longer list of duplicates goes to a file.
const SHOWN: usize = 20;

/// What all processes have told, and what was done to them.
#[derive(Debug, Default)]
pub struct Report {
    history: History,
    /// Processes that were stopped as they should be.
    pub(super) stopped: u32,
}

impl Report {
    pub(super) fn killed(&mut self, pid: u32, from: Duration, to: Duration) {
        self.history.disturbed(pid, How::Killed, from.as_nanos(), to.as_nanos());
    }

    pub(super) fn frozen(&mut self, pid: u32, from: Duration, to: Duration) {
        self.history.disturbed(pid, How::Frozen, from.as_nanos(), to.as_nanos());
    }

    /// Takes in the lines of a process.
    pub(super) fn hear(&mut self, pid: u32, lines: &[String]) {
        self.history.hear(pid, lines);
    }

    /// So many rows are dead in the end.
    pub(super) fn found_dead(&mut self, rows: u64) {
        self.history.dead = rows;
    }

    /// Says what happened, with every duplicate and its cause, and fails unless all was as it should be.
    #[track_caller]
    pub fn judge(&self) {
        let verdict = self.history.judge();
        eprint!("{}", self.summary(&verdict));
        let wrongs = wrongs(&verdict);
        assert!(wrongs.is_empty(), "{wrongs}disturbed: {:?}", self.history.disturbances);
        assert!(self.committed() > 0, "something was written");
    }

    fn committed(&self) -> usize {
        self.history.lives.values().filter(|life| life.committed.is_some()).count()
    }

    fn summary(&self, verdict: &Verdict) -> String {
        let times = |how| self.history.disturbances.iter().filter(|it| it.how == how).count();
        let (killed, frozen) = (times(How::Killed), times(How::Frozen));
        let (committed, stopped) = (self.committed(), self.stopped);
        let mut text = format!(
            "{committed} events committed; processes: {killed} killed, {frozen} frozen, {stopped} stopped\n"
        );
        let [lost, ghosts, out_of_order, beside] =
            [&verdict.lost, &verdict.ghosts, &verdict.out_of_order, &verdict.beside].map(Vec::len);
        let dead = verdict.dead;
        let _ = writeln!(
            text,
            "{lost} lost, {dead} dead, {ghosts} ghosts, {out_of_order} out of order, {beside} beside each other"
        );
        let (retries, duplicates, causes) = (verdict.retries, &verdict.duplicates, verdict.causes());
        let count = duplicates.len();
        let _ = writeln!(text, "retries of failures: {retries}; duplicates: {count}, by cause: {causes:?}");
        let list: String = duplicates.iter().map(|duplicate| format!("  {duplicate}\n")).collect();
        if count <= SHOWN {
            return text + &list;
        }
        let path = std::env::temp_dir().join(format!("pillarbox-duplicates-{}.txt", std::process::id()));
        let _ = match std::fs::write(&path, list) {
            Ok(()) => writeln!(text, "each of them is named in {}", path.display()),
            Err(error) => writeln!(text, "their list could not be written to {}: {error}", path.display()),
        };
        text
    }
}

/// All that is wrong, a few of each kind.
fn wrongs(verdict: &Verdict) -> String {
    let unexplained: Vec<String> = verdict.unexplained().map(ToString::to_string).collect();
    let dead: Vec<String> = (verdict.dead > 0).then(|| verdict.dead.to_string()).into_iter().collect();
    let kinds = [
        ("lost", &verdict.lost),
        ("dead, though everything succeeds in the end", &dead),
        ("delivered though never committed", &verdict.ghosts),
        ("out of order", &verdict.out_of_order),
        ("at the same time as another of its key", &verdict.beside),
        ("delivered again without a cause", &unexplained),
    ];
    let mut text = String::new();
    for (what, found) in kinds.iter().filter(|(_, found)| !found.is_empty()) {
        let _ = writeln!(text, "{what} ({}):", found.len());
        for one in found.iter().take(SHOWN) {
            let _ = writeln!(text, "  {one}");
        }
    }
    text
}
