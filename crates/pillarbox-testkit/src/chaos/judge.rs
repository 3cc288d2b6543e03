//! Whether what happened was right: pure decisions over a [`History`].
//!
//! No verdict is a guess: where a process may have lost its lease, what is allowed then is allowed here.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;

use super::history::{Attempt, End, History, How, Life, Moment};

/// What was delivered is recorded within this time, so that what happens to its process later is no cause to deliver it
/// again.
const RECORDED_WITHIN: Moment = 10_000_000_000;
/// A process that was asleep may begin for so long afterwards what it had in its hands before.
const AWAKES_WITHIN: Moment = 1_000_000_000;

/// What was wrong, and how often events came again.
#[derive(Debug, Default)]
pub(super) struct Verdict {
    /// Committed, and not delivered in the end.
    pub(super) lost: Vec<String>,
    /// Delivered, and never committed.
    pub(super) ghosts: Vec<String>,
    /// Rows that are dead in the end, though every event succeeds sooner or later.
    pub(super) dead: u64,
    /// Followers that did not wait for one before them in their key.
    pub(super) out_of_order: Vec<String>,
    /// Deliveries of one key beside each other.
    pub(super) beside: Vec<String>,
    /// Deliveries that failed as they were meant to, and came again.
    pub(super) retries: usize,
    /// Deliveries that came again for another reason.
    pub(super) duplicates: Vec<Duplicate>,
}

/// A delivery that was not the last of its event, though it did not fail.
#[derive(Debug)]
pub(super) struct Duplicate {
    event_id: String,
    attempt: Attempt,
    next: Attempt,
    /// What happened to its process, or to the one that delivered it once more; absent if nothing did.
    pub(super) cause: Option<(u32, How)>,
}

impl fmt::Display for Duplicate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { event_id, attempt, next, cause } = self;
        let end = match attempt.end {
            Some((End::Done, _)) => "done",
            Some((End::Failed, _)) => "failed",
            Some((End::CutOff, _)) => "cut off",
            None => "without an end",
        };
        let millis = (next.began - attempt.began) / 1_000_000;
        write!(f, "{event_id}: {}, {end}; again {millis} ms later by {}; cause: ", By(attempt), By(next))?;
        match cause {
            Some((pid, how)) => write!(f, "process {pid} was {how}"),
            None => f.write_str("NONE"),
        }
    }
}

/// Who delivers.
struct By<'a>(&'a Attempt);

impl fmt::Display for By<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "process {} as its delivery {}", self.0.pid, self.0.number)
    }
}

impl Verdict {
    pub(super) fn unexplained(&self) -> impl Iterator<Item = &Duplicate> {
        self.duplicates.iter().filter(|duplicate| duplicate.cause.is_none())
    }

    /// How many duplicates there are of each cause.
    pub(super) fn causes(&self) -> BTreeMap<String, usize> {
        let mut causes = BTreeMap::new();
        for duplicate in &self.duplicates {
            let cause = duplicate.cause.map_or("no cause".to_owned(), |(_, how)| how.to_string());
            *causes.entry(cause).or_default() += 1;
        }
        causes
    }
}

impl History {
    pub(super) fn judge(&self) -> Verdict {
        let mut verdict = Verdict { dead: self.dead, ..Verdict::default() };
        for (id, life) in &self.lives {
            if self.is_lost(life) {
                verdict.lost.push(id.clone());
            }
            if life.committed.is_none() && !life.attempts.is_empty() {
                verdict.ghosts.push(id.clone());
            }
            self.count_repetitions(id, life, &mut verdict);
        }
        for lives in self.by_key().values() {
            self.look_at_order(lives, &mut verdict.out_of_order);
            self.look_beside(lives, &mut verdict.beside);
        }
        verdict
    }

    /// Whether an event was committed and has not come to its end: it never succeeded, or had to come again since.
    fn is_lost(&self, life: &Life) -> bool {
        let is_success = |attempt: &Attempt| attempt.is_done_by(Moment::MAX);
        let Some(last) = life.attempts.iter().rposition(is_success) else { return life.committed.is_some() };
        life.attempts[last + 1..].iter().any(|later| self.stale(later).is_none())
    }

    /// Why an attempt may have begun after its process had lost its lease, so that its outcome counts for nothing.
    fn stale(&self, attempt: &Attempt) -> Option<How> {
        let is_asleep = |from, to| from <= attempt.began && attempt.began <= to + AWAKES_WITHIN;
        self.disturbances
            .iter()
            .find(|it| it.pid == attempt.pid && it.how != How::Killed && is_asleep(it.from, it.to))
            .map(|it| it.how)
    }

    fn count_repetitions(&self, id: &str, life: &Life, verdict: &mut Verdict) {
        for pair in life.attempts.windows(2) {
            let [attempt, next] = pair else { continue };
            if matches!(attempt.end, Some((End::Failed, at)) if at <= next.began) {
                verdict.retries += 1;
                continue;
            }
            let cause = self.cause_of_another(attempt, next);
            let (attempt, next) = (attempt.clone(), next.clone());
            verdict.duplicates.push(Duplicate { event_id: id.to_owned(), attempt, next, cause });
        }
    }

    /// What explains that `next` followed `attempt`: something that happened to its process before `next` began, or
    /// `next` is by one that had lost its lease.
    fn cause_of_another(&self, attempt: &Attempt, next: &Attempt) -> Option<(u32, How)> {
        let (is_cut_off, ended) = match attempt.end {
            Some((End::CutOff, at)) => (true, at),
            Some((_, at)) => (false, at),
            None => (false, Moment::MAX),
        };
        // Who is killed cuts nothing off, and what cuts off comes before.
        let until = if is_cut_off { ended.min(next.began) } else { next.began };
        let own = self.disturbances.iter().find(|it| {
            let is_in_time = it.from <= until && it.from <= ended.saturating_add(RECORDED_WITHIN);
            let can_be = !(is_cut_off && it.how == How::Killed);
            it.pid == attempt.pid && it.to >= attempt.began && is_in_time && can_be
        });
        own.map(|it| (it.pid, it.how)).or_else(|| self.stale(next).map(|how| (next.pid, how)))
    }

    /// The events of each key, and each event that has none by itself.
    fn by_key(&self) -> BTreeMap<&str, Vec<(&str, &Life)>> {
        let mut keys: BTreeMap<&str, Vec<(&str, &Life)>> = BTreeMap::new();
        for (id, life) in &self.lives {
            keys.entry(life.key.as_deref().unwrap_or(id)).or_default().push((id, life));
        }
        keys
    }

    /// O1: an event begins after all that were committed before it was inserted have succeeded, and while none of them
    /// has to come again.
    fn look_at_order(&self, lives: &[(&str, &Life)], wrong: &mut Vec<String>) {
        for (later, after) in lives {
            let (Some(inserted), Some(first)) = (after.inserted, after.attempts.first()) else { continue };
            for (earlier, before) in lives {
                if before.committed.is_none_or(|committed| committed >= inserted) {
                    continue;
                }
                if let Some(why) = self.why_too_early(before, first) {
                    wrong.push(format!("{later}: {} {why} {earlier}: {before:?}", By(first)));
                }
            }
        }
    }

    /// What is wrong with the first delivery of a follower, if anything is.
    fn why_too_early(&self, head: &Life, follower: &Attempt) -> Option<&'static str> {
        let begun = &head.attempts[..head.attempts.partition_point(|one| one.began < follower.began)];
        let Some((last, first)) = begun.last().zip(begun.first()) else { return Some("overtook") };
        // Whoever goes on has seen a success, its own or one that was recorded, lease or not.
        if !begun.iter().any(|attempt| attempt.is_done_by(follower.began)) {
            return Some("did not wait for the success of");
        }
        if last.is_done_by(follower.began) {
            return None;
        }
        let may_have_lost = |pid| self.may_lose(pid, first.began, follower.began);
        let is_excused = may_have_lost(follower.pid) || begun.iter().any(|one| may_have_lost(one.pid));
        (!is_excused).then_some("did not wait for another delivery of")
    }

    /// O1, O5: deliveries of one key do not overlap.
    fn look_beside(&self, lives: &[(&str, &Life)], wrong: &mut Vec<String>) {
        let mut attempts: Vec<(&str, &Attempt)> =
            lives.iter().flat_map(|(id, life)| life.attempts.iter().map(move |one| (*id, one))).collect();
        attempts.sort_by_key(|(_, attempt)| attempt.began);
        for (index, (id, one)) in attempts.iter().enumerate() {
            let end = self.end_of(one);
            for (beside, other) in attempts[index + 1..].iter().take_while(|(_, other)| other.began < end) {
                let may_have_lost = |pid| self.may_lose(pid, one.began, other.began);
                if !may_have_lost(one.pid) && !may_have_lost(other.pid) {
                    wrong.push(format!("{beside}: {} beside {id}: {}", By(other), By(one)));
                }
            }
        }
    }

    /// When an attempt was over at the latest: who was killed in the middle of it did nothing more.
    fn end_of(&self, attempt: &Attempt) -> Moment {
        let death = self.disturbances.iter().find(|it| it.pid == attempt.pid && it.how == How::Killed);
        attempt.end.map(|(_, at)| at).or(death.map(|it| it.from)).unwrap_or(Moment::MAX)
    }

    /// Whether a process may have been without its lease at some time between two moments.
    fn may_lose(&self, pid: u32, from: Moment, to: Moment) -> bool {
        self.disturbances.iter().any(|it| it.pid == pid && it.from <= to && it.to + AWAKES_WITHIN >= from)
    }
}
