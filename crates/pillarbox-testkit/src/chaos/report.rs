//! What happened, and whether it was right.

use std::collections::BTreeMap;

/// Nanoseconds of the machine's clock.
type Moment = u128;

const NO_CAUSE: &str = "no cause";

/// What is known of one event.
#[derive(Debug, Default)]
struct Life {
    key: String,
    inserted: Option<Moment>,
    committed: Option<Moment>,
    is_rolled_back: bool,
    deliveries: Vec<Attempt>,
}

/// One delivery.
#[derive(Debug)]
struct Attempt {
    began: Moment,
    pid: u32,
    /// It failed, or was cut off: the event comes again.
    comes_again: bool,
}

impl Life {
    fn first_delivery(&self) -> Option<Moment> {
        self.deliveries.iter().map(|attempt| attempt.began).min()
    }
}

/// What all processes have told, and what was done to them.
#[derive(Debug, Default)]
pub struct Report {
    lives: BTreeMap<String, Life>,
    disturbances: Vec<(u32, &'static str, Moment)>,
    /// Processes that were stopped as they should be.
    pub(super) stopped: u32,
}

impl Report {
    /// Something was done to a process.
    pub(super) fn disturbed(&mut self, pid: u32, how: &'static str, at: std::time::Duration) {
        self.disturbances.push((pid, how, at.as_nanos()));
    }

    /// Takes in the lines of a process.
    pub(super) fn hear(&mut self, pid: u32, lines: Vec<String>) {
        for line in lines {
            let words: Vec<&str> = line.split(' ').collect();
            let [act, event_id, key, moment] = words[..] else { continue };
            // A process that was killed may have said half a line.
            let Ok(moment) = moment.parse::<Moment>() else { continue };
            if act == "lost" {
                self.disturbances.push((pid, "lost its lease", moment));
                continue;
            }
            let life = self.lives.entry(event_id.to_owned()).or_default();
            life.key = key.to_owned();
            match act {
                "insert" => life.inserted = Some(moment),
                "commit" => life.committed = Some(moment),
                "rollback" => life.is_rolled_back = true,
                "deliver" => life.deliveries.push(Attempt { began: moment, pid, comes_again: false }),
                _ => {
                    let last = life.deliveries.iter_mut().rev().find(|attempt| attempt.pid == pid);
                    last.expect("it was delivered before").comes_again = true;
                }
            }
        }
    }

    fn lost(&self) -> Vec<&str> {
        self.ids(|life| life.committed.is_some() && life.deliveries.is_empty())
    }

    fn ghosts(&self) -> Vec<&str> {
        self.ids(|life| life.is_rolled_back && !life.deliveries.is_empty())
    }

    fn ids(&self, which: impl Fn(&Life) -> bool) -> Vec<&str> {
        self.lives.iter().filter(|(_, life)| which(life)).map(|(id, _)| id.as_str()).collect()
    }

    /// Pairs of one key of which the first was committed before the second was inserted, and delivered after it.
    fn out_of_order(&self) -> Vec<(&str, &str)> {
        let mut keys: BTreeMap<&str, Vec<(&str, &Life)>> = BTreeMap::new();
        for (id, life) in self.lives.iter().filter(|(_, life)| life.key != "-") {
            keys.entry(&life.key).or_default().push((id, life));
        }
        let mut wrong = Vec::new();
        for lives in keys.values() {
            for (earlier, before) in lives {
                for (later, after) in lives {
                    let is_before =
                        matches!((before.committed, after.inserted), (Some(one), Some(other)) if one < other);
                    let (one, other) = (before.first_delivery(), after.first_delivery());
                    if is_before && other.is_some() && (one.is_none() || one > other) {
                        wrong.push((*earlier, *later));
                    }
                }
            }
        }
        wrong
    }

    /// How many deliveries were repeated, by their cause.
    fn repetitions(&self) -> BTreeMap<&'static str, u32> {
        let mut causes = BTreeMap::new();
        for life in self.lives.values() {
            let mut attempts: Vec<&Attempt> = life.deliveries.iter().collect();
            attempts.sort_by_key(|attempt| attempt.began);
            attempts.pop();
            for attempt in attempts {
                *causes.entry(self.cause_of_another(attempt)).or_default() += 1;
            }
        }
        causes
    }

    /// Why an attempt was not the last.
    fn cause_of_another(&self, attempt: &Attempt) -> &'static str {
        let is_cause =
            |(pid, _, at): &&(u32, &'static str, Moment)| *pid == attempt.pid && *at > attempt.began;
        match self.disturbances.iter().find(is_cause) {
            _ if attempt.comes_again => "failed, or was cut off",
            Some((_, how, _)) => how,
            None => NO_CAUSE,
        }
    }

    /// Says what happened.
    pub fn print(&self) {
        let committed = self.lives.values().filter(|life| life.committed.is_some()).count();
        let count = |how| self.disturbances.iter().filter(|(_, what, _)| *what == how).count();
        let (killed, frozen) = (count("killed"), count("frozen") / 2);
        eprintln!(
            "{committed} events committed; processes: {killed} killed, {frozen} frozen, {} stopped",
            self.stopped
        );
        eprintln!(
            "{} lost, {} ghosts, {} out of order",
            self.lost().len(),
            self.ghosts().len(),
            self.out_of_order().len()
        );
        eprintln!("repeated deliveries: {:?}", self.repetitions());
    }

    /// Fails unless everything was as it should be.
    #[track_caller]
    pub fn judge(&self) {
        assert!(self.lost().is_empty(), "lost: {:?}", self.lost());
        assert!(self.ghosts().is_empty(), "ghosts: {:?}", self.ghosts());
        let wrong = self.out_of_order();
        if let Some((earlier, later)) = wrong.first() {
            let (before, after) = (&self.lives[*earlier], &self.lives[*later]);
            let disturbances = &self.disturbances;
            panic!(
                "{} out of order; {earlier}: {before:?} after {later}: {after:?}; disturbed: {disturbances:?}",
                wrong.len()
            );
        }
        assert_eq!(self.repetitions().get(NO_CAUSE), None, "every repetition has a cause");
        assert!(self.lives.values().any(|life| life.committed.is_some()), "something was written");
    }
}
