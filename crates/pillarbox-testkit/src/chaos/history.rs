//! What all processes have told, and what was done to them.

use std::collections::BTreeMap;
use std::fmt;

/// Nanoseconds of the machine's clock.
pub(super) type Moment = u128;

/// A relay may have lost its lease for so long before it says so: it learns of it by its next heartbeat, or when it
/// records an outcome.
pub(super) const TOLD_LATE: Moment = 2_000_000_000;

/// What is known of one event.
#[derive(Debug, Default)]
pub(super) struct Life {
    /// Absent if it has none.
    pub(super) key: Option<String>,
    pub(super) inserted: Option<Moment>,
    pub(super) committed: Option<Moment>,
    /// In the order in which they began.
    pub(super) attempts: Vec<Attempt>,
}

/// One delivery.
#[derive(Clone, Debug)]
pub(super) struct Attempt {
    pub(super) pid: u32,
    /// Which delivery of its process it is.
    pub(super) number: u64,
    pub(super) began: Moment,
    /// Absent if its process was killed in the middle of it.
    pub(super) end: Option<(End, Moment)>,
}

/// How a delivery ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Done,
    /// The listener said so: the event comes again.
    Failed,
    /// The listener was not let go on: the event comes again.
    CutOff,
}

impl Attempt {
    /// Whether it had succeeded by then.
    pub(super) fn is_done_by(&self, moment: Moment) -> bool {
        self.end.is_some_and(|(end, at)| end == End::Done && at <= moment)
    }
}

/// What happened to a process, from when to when.
#[derive(Clone, Debug)]
pub(super) struct Disturbance {
    pub(super) pid: u32,
    pub(super) how: How,
    pub(super) from: Moment,
    pub(super) to: Moment,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum How {
    Killed,
    Frozen,
    /// It could not say that it is alive for longer than a lease lasts.
    Silent,
    /// It was told that its lease has passed to another.
    LostLease,
}

impl fmt::Display for How {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Killed => "killed",
            Self::Frozen => "frozen",
            Self::Silent => "silent for longer than its lease",
            Self::LostLease => "lost its lease",
        })
    }
}

/// All that the judge goes by.
#[derive(Debug, Default)]
pub(super) struct History {
    pub(super) lives: BTreeMap<String, Life>,
    pub(super) disturbances: Vec<Disturbance>,
    /// Rows that are dead in the end.
    pub(super) dead: u64,
}

impl History {
    /// Takes in the lines of a process.
    pub(super) fn hear(&mut self, pid: u32, lines: &[String]) {
        for line in lines {
            let words: Vec<&str> = line.split(' ').collect();
            let [act, event_id, key, moment, rest @ ..] = &words[..] else { continue };
            // A process that was killed may have said half a line.
            let Ok(moment) = moment.parse::<Moment>() else { continue };
            let number = rest.first().and_then(|number| number.parse().ok());
            match (*act, number) {
                ("lost", _) => self.disturbed(pid, How::LostLease, moment.saturating_sub(TOLD_LATE), moment),
                ("silent", Some(since)) => self.silent(pid, u128::from(since), moment),
                _ => self.acted(pid, act, event_id, (*key != "-").then_some(*key), moment, number),
            }
        }
    }

    pub(super) fn disturbed(&mut self, pid: u32, how: How, from: Moment, to: Moment) {
        self.disturbances.push(Disturbance { pid, how, from, to });
    }

    /// A silence is told again and again while it lasts.
    fn silent(&mut self, pid: u32, since: Moment, told: Moment) {
        let mut latest = self.disturbances.iter_mut().rev();
        match latest.find(|known| known.pid == pid && known.how == How::Silent && known.from == since) {
            Some(known) => known.to = told,
            None => self.disturbed(pid, How::Silent, since, told),
        }
    }

    fn acted(
        &mut self,
        pid: u32,
        act: &str,
        event_id: &str,
        key: Option<&str>,
        moment: Moment,
        number: Option<u64>,
    ) {
        let life = self.lives.entry(event_id.to_owned()).or_default();
        life.key = key.map(str::to_owned);
        let end = match (act, number) {
            ("insert", _) => return life.inserted = Some(moment),
            ("commit", _) => return life.committed = Some(moment),
            ("deliver", Some(number)) => {
                let place = life.attempts.partition_point(|known| known.began <= moment);
                return life.attempts.insert(place, Attempt { pid, number, began: moment, end: None });
            }
            ("done", _) => End::Done,
            ("failed", _) => End::Failed,
            ("cut", _) => End::CutOff,
            // A rollback: what is not committed must not be delivered.
            _ => return,
        };
        // Half a line, of one that was killed.
        let Some(number) = number else { return };
        let is_it = |known: &&mut Attempt| known.pid == pid && known.number == number;
        life.attempts.iter_mut().find(is_it).expect("it was delivered before").end = Some((end, moment));
    }
}
