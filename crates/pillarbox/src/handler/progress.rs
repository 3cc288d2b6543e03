//! How far the handlers of one event have come, as pure decisions.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::config::HOLD_FOR;
use crate::mutant::mutant;
use crate::store::{Outcome, Settlement, Taken};

/// Where one handler stands with an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Standing {
    /// It, or its fallback, has succeeded.
    Done,
    /// It is to run, for the first time or again.
    Owed {
        /// How often it has failed.
        failures: u32,
        /// How long after the event's due time it is its turn, in microseconds: no instant is stored, for the database
        /// alone has a clock.
        after_us: u64,
        /// Whether the instance that looked last has no handler of this id: for people who look.
        #[serde(default, skip_serializing_if = "is_not")]
        unknown: bool,
    },
    /// It was given up, and so was its fallback.
    Dead {
        /// How often it has failed.
        failures: u32,
    },
}

/// The words of a standing. A database that looks for a handler looks for its id as the name of a value, and would find
/// these in every other text.
pub(super) const WORDS: [&str; 5] = ["owed", "dead", "failures", "after_us", "unknown"];

impl Standing {
    const NEW: Self = Self::Owed { failures: 0, after_us: 0, unknown: false };

    pub(super) fn is_owed(self) -> bool {
        matches!(self, Self::Owed { .. })
    }

    /// The same, where the handler is registered or is not.
    fn known(self, is_known: bool) -> Self {
        match self {
            Self::Owed { failures, after_us, .. } => Self::Owed { failures, after_us, unknown: !is_known },
            other => other,
        }
    }
}

fn is_not(flag: &bool) -> bool {
    !flag
}

/// The stored text cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("the column `handlers` cannot be read: {0}")]
pub(crate) struct Unreadable(serde_json::Error);

/// The standings of all handlers of one event during a pass.
///
/// A pass is one delivery of an event to all handlers that are due. Times count from when the event became due.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Progress {
    /// One for each that is registered, in their order.
    standings: Vec<Standing>,
    /// Those that are stored, and not registered here.
    absent: BTreeMap<String, Standing>,
    has_changed: bool,
}

/// What went wrong in a pass.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Trouble {
    /// The last error, with the handler that it is from.
    pub(crate) error: String,
    /// Whether any failure counts as an attempt.
    pub(crate) spent: bool,
}

impl Progress {
    /// How things stand before a pass, where `stored` is what was recorded last. Who is registered and not stored is
    /// owed. After a replay, which `attempts` tells by being 0 again, the dead are owed.
    pub(crate) fn begin<'a>(
        ids: impl Iterator<Item = &'a str>,
        stored: Option<&str>,
        attempts: u32,
    ) -> Result<Self, Unreadable> {
        let Some(stored) = stored else {
            let standings = ids.map(|_| Standing::NEW).collect();
            return Ok(Self { standings, absent: BTreeMap::new(), has_changed: false });
        };
        let mut stored = read(stored)?;
        for standing in stored.values_mut().filter(|_| attempts == 0) {
            if matches!(standing, Standing::Dead { .. }) || mutant!(ReplayOfAll) {
                *standing = Standing::NEW;
            }
        }
        let standings = ids.map(|id| stored.remove(id).map_or(Standing::NEW, |of| of.known(true))).collect();
        let absent = stored.into_iter().map(|(id, standing)| (id, standing.known(false))).collect();
        Ok(Self { standings, absent, has_changed: false })
    }

    /// Takes for done what this process knows to have succeeded, though that could not be recorded.
    pub(crate) fn recall<'a>(&mut self, ids: impl Iterator<Item = &'a str>, succeeded: &Succeeded) {
        for (standing, id) in self.standings.iter_mut().zip(ids) {
            if succeeded.includes(id) {
                *standing = Standing::Done;
                self.has_changed = true;
            }
        }
    }

    /// Whether it is the turn of a handler so long after the event became due; then how often it has failed.
    pub(crate) fn due(&self, handler: usize, due_for: Duration) -> Option<u32> {
        match self.standings[handler] {
            Standing::Owed { failures, after_us, .. } if Duration::from_micros(after_us) <= due_for => {
                Some(failures)
            }
            _ => None,
        }
    }

    pub(crate) fn succeed(&mut self, handler: usize) {
        self.set(handler, Standing::Done);
    }

    /// A handler is to run again `after` the event became due.
    pub(crate) fn postpone(&mut self, handler: usize, failures: u32, after: Duration) {
        let after_us = u64::try_from(after.as_micros()).unwrap_or(u64::MAX);
        self.set(handler, Standing::Owed { failures, after_us, unknown: false });
    }

    pub(crate) fn give_up(&mut self, handler: usize, failures: u32) {
        self.set(handler, Standing::Dead { failures });
    }

    fn set(&mut self, handler: usize, standing: Standing) {
        self.standings[handler] = standing;
        self.has_changed = true;
    }

    /// Whether a handler has succeeded.
    pub(crate) fn is_done_by(&self, handler: usize) -> bool {
        self.standings[handler] == Standing::Done
    }

    /// Whether all have succeeded.
    pub(crate) fn is_done(&self) -> bool {
        self.all().all(|standing| *standing == Standing::Done)
    }

    /// What becomes of the event after a pass that ended so long after it became due, and what is stored with it.
    pub(crate) fn conclude<'a>(
        mut self,
        ids: impl Iterator<Item = &'a str> + Clone,
        due_for: Duration,
        trouble: Trouble,
    ) -> (Outcome, Option<String>) {
        let missing: Vec<&str> = self.missing().collect();
        let Trouble { error, spent } = trouble;
        let next = self.standings.iter().filter_map(|standing| match standing {
            Standing::Owed { after_us, .. } => Some(Duration::from_micros(*after_us).saturating_sub(due_for)),
            _ => None,
        });
        let hold = (!missing.is_empty()).then_some(HOLD_FOR);
        let next = next.min().filter(|_| !(mutant!(DeadWhileOwed) && self.has_dead()));
        match (next, hold) {
            (None, None) if self.has_dead() => (Outcome::Dead { error, spent }, Some(self.text(ids))),
            (None, None) if spent => (Outcome::FellBack { error }, None),
            (None, None) => (Outcome::Done, None),
            (None, Some(until)) if error.is_empty() => {
                let reason = format!("hold: no handler `{}` is registered here", missing.join("`, `"));
                (Outcome::Aside { until: Some(until), reason }, Some(self.text(ids)))
            }
            (next, hold) => {
                let after = next.into_iter().chain(hold).min().unwrap_or_default();
                self.count_from(due_for.saturating_add(after));
                (Outcome::Retry { after, error, spent }, Some(self.text(ids)))
            }
        }
    }

    /// What becomes of the event after a pass that was cut off: it goes back as it was, but for who is done.
    pub(crate) fn cut_off<'a>(self, ids: impl Iterator<Item = &'a str>) -> (Outcome, Option<String>) {
        let has_changed = self.has_changed && !mutant!(ReleaseForgetsProgress);
        let text = has_changed.then(|| self.text(ids));
        (Outcome::Released, text)
    }

    fn has_dead(&self) -> bool {
        self.all().any(|standing| matches!(standing, Standing::Dead { .. }))
    }

    /// Who is owed and not registered here.
    pub(crate) fn missing(&self) -> impl Iterator<Item = &str> {
        self.absent.iter().filter(|(_, standing)| standing.is_owed()).map(|(id, _)| id.as_str())
    }

    fn all(&self) -> impl Iterator<Item = &Standing> {
        self.standings.iter().chain(self.absent.values())
    }

    /// Counts times from another moment: this long after the one before.
    fn count_from(&mut self, later: Duration) {
        let later = u64::try_from(later.as_micros()).unwrap_or(u64::MAX);
        for standing in self.standings.iter_mut().chain(self.absent.values_mut()) {
            if let Standing::Owed { after_us, .. } = standing {
                *after_us = after_us.saturating_sub(later);
            }
        }
    }

    fn text<'a>(self, ids: impl Iterator<Item = &'a str>) -> String {
        let mut all = self.absent;
        all.extend(ids.map(str::to_owned).zip(self.standings));
        written(&all)
    }
}

/// What is known to have succeeded, though that could not be recorded.
#[derive(Clone, Debug)]
pub(crate) enum Succeeded {
    All,
    These(Arc<[String]>),
}

impl Succeeded {
    /// What a settlement says of who has succeeded; `None` if nobody has.
    pub(crate) fn of(outcome: &Outcome, handlers: Option<&str>) -> Option<Self> {
        if outcome.is_done() {
            return Some(Self::All);
        }
        handlers.and_then(Self::in_text)
    }

    /// What a stored text says of it; `None` if nobody has succeeded.
    pub(crate) fn in_text(text: &str) -> Option<Self> {
        let stored = read(text).ok()?;
        let done = stored.into_iter().filter(|(_, standing)| *standing == Standing::Done);
        let done: Arc<[String]> = done.map(|(id, _)| id).collect();
        (!done.is_empty()).then_some(Self::These(done))
    }

    fn includes(&self, id: &str) -> bool {
        match self {
            Self::All => true,
            Self::These(ids) => ids.iter().any(|of| of == id),
        }
    }
}

/// What becomes of an event that no handler gets to see: given up as a whole, who was owed is dead.
pub(crate) fn unseen(taken: &Taken, outcome: Outcome) -> Settlement {
    let handlers = taken.handlers.as_deref().filter(|_| !outcome.comes_again()).and_then(given_up);
    Settlement { handlers, ..Settlement::of(taken, outcome) }
}

/// The stored text of an event that was given up as a whole. `None` if nobody was owed.
fn given_up(stored: &str) -> Option<String> {
    let mut all = read(stored).ok()?;
    let mut owed = all.values_mut().filter(|standing| standing.is_owed()).peekable();
    owed.peek()?;
    for standing in owed {
        if let Standing::Owed { failures, .. } = *standing {
            *standing = Standing::Dead { failures };
        }
    }
    Some(written(&all))
}

pub(super) fn read(text: &str) -> Result<BTreeMap<String, Standing>, Unreadable> {
    serde_json::from_str(text).map_err(Unreadable)
}

pub(super) fn written(all: &BTreeMap<String, Standing>) -> String {
    // Texts and numbers always have a form in JSON.
    serde_json::to_string(all).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const IDS: [&str; 3] = ["billing", "mail", "audit"];
    const SECOND: Duration = Duration::from_secs(1);

    fn begin(stored: Option<&str>, attempts: u32) -> Progress {
        Progress::begin(IDS.into_iter(), stored, attempts).unwrap()
    }

    fn due(progress: &Progress, due_for: Duration) -> Vec<&'static str> {
        (0..IDS.len()).filter(|handler| progress.due(*handler, due_for).is_some()).map(|at| IDS[at]).collect()
    }

    fn conclude(progress: Progress, due_for: Duration, error: &str) -> (Outcome, Option<String>) {
        let trouble = Trouble { error: error.to_owned(), spent: !error.is_empty() };
        progress.conclude(IDS.into_iter(), due_for, trouble)
    }

    /// L3: an event is done when all have succeeded, and nothing is stored.
    #[test]
    fn event_is_done_when_all_have_succeeded() {
        let mut progress = begin(None, 0);
        assert_eq!(due(&progress, Duration::ZERO), IDS);
        (0..3).for_each(|handler| progress.succeed(handler));

        assert_eq!(conclude(progress, Duration::ZERO, ""), (Outcome::Done, None));
    }

    /// L3, L4: where a fallback made up for a failure the event is done, and an attempt is spent.
    #[test]
    fn failure_counts_though_nobody_is_owed() {
        let mut progress = begin(None, 2);
        (0..3).for_each(|handler| progress.succeed(handler));

        let error = "handler `mail`: 410".to_owned();
        assert_eq!(conclude(progress, Duration::ZERO, &error), (Outcome::FellBack { error }, None));
    }

    /// L3: who succeeded is not run again because another failed, and each waits for its own time.
    #[test]
    fn each_waits_for_its_own_time() {
        let mut progress = begin(None, 0);
        progress.succeed(0);
        progress.postpone(1, 1, 5 * SECOND);
        progress.postpone(2, 1, 2 * SECOND);

        let (outcome, stored) = conclude(progress, SECOND, "handler `audit`: 503");
        let error = "handler `audit`: 503".to_owned();
        assert_eq!(outcome, Outcome::Retry { after: SECOND, error, spent: true });

        let again = begin(stored.as_deref(), 1);
        assert_eq!(due(&again, Duration::ZERO), ["audit"]);
        assert_eq!(due(&again, 3 * SECOND), ["mail", "audit"]);
        assert_eq!(again.due(1, 3 * SECOND), Some(1), "its attempts are its own");
    }

    /// L3: nothing failed in a pass that leaves others for later: the last error stays.
    #[test]
    fn pass_without_a_failure_keeps_the_last_error() {
        let mut progress = begin(None, 0);
        (0..2).for_each(|handler| progress.succeed(handler));
        progress.postpone(2, 1, 3 * SECOND);

        let (outcome, _) = conclude(progress, SECOND, "");

        assert_eq!(outcome, Outcome::Retry { after: 2 * SECOND, error: String::new(), spent: false });
    }

    /// L3: an event is dead when none is owed and one is dead; replay runs the dead ones only.
    #[test]
    fn replay_runs_the_dead_only() {
        let mut progress = begin(None, 0);
        progress.succeed(0);
        progress.give_up(1, 10);
        progress.succeed(2);

        let (outcome, stored) = conclude(progress, SECOND, "handler `mail`: 410");
        assert_eq!(outcome, Outcome::Dead { error: "handler `mail`: 410".into(), spent: true });

        assert_eq!(due(&begin(stored.as_deref(), 10), SECOND), [""; 0], "not replayed");
        let replayed = begin(stored.as_deref(), 0);
        assert_eq!(due(&replayed, Duration::ZERO), ["mail"]);
        assert_eq!(replayed.due(1, Duration::ZERO), Some(0), "its attempts begin anew");
    }

    /// L3: who died earlier is why the event is dead, and its error stays.
    #[test]
    fn earlier_death_keeps_its_error() {
        let stored = r#"{"billing":{"owed":{"failures":1,"after_us":0}},"mail":{"dead":{"failures":3}},"audit":"done"}"#;
        let mut progress = begin(Some(stored), 2);
        progress.succeed(0);

        let (outcome, _) = conclude(progress, SECOND, "");

        assert_eq!(outcome, Outcome::Dead { error: String::new(), spent: false });
    }

    /// L3: a dead handler stays dead while others of its event are owed.
    #[test]
    fn dead_stays_dead_while_others_are_owed() {
        let mut progress = begin(None, 0);
        progress.give_up(0, 3);
        progress.postpone(1, 1, SECOND);
        progress.succeed(2);

        let (outcome, stored) = conclude(progress, Duration::ZERO, "handler `mail`: 503");

        assert!(matches!(outcome, Outcome::Retry { .. }), "{outcome:?}");
        assert_eq!(due(&begin(stored.as_deref(), 1), 9 * SECOND), ["mail"]);
    }

    /// L3: an id that is not registered leaves the event pending, and keeps its place.
    #[test]
    fn unknown_handler_holds_its_event() {
        let stored = r#"{"billing":"done","mail":"done","audit":"done","search":{"owed":{"failures":2,"after_us":0}}}"#;

        let (outcome, kept) = conclude(begin(Some(stored), 2), SECOND, "");

        let reason = "hold: no handler `search` is registered here".to_owned();
        assert_eq!(outcome, Outcome::Aside { until: Some(HOLD_FOR), reason });
        let kept: serde_json::Value = serde_json::from_str(&kept.unwrap()).unwrap();
        assert_eq!(kept["search"]["owed"]["failures"], 2);
        assert_eq!(kept["search"]["owed"]["unknown"], true, "for people who look");
    }

    /// L3: who is known again is not marked as unknown any more.
    #[test]
    fn mark_goes_when_the_handler_is_back() {
        let stored = r#"{"billing":"done","mail":{"owed":{"failures":2,"after_us":9000000,"unknown":true}},"audit":"done"}"#;

        let (_, kept) = conclude(begin(Some(stored), 2), SECOND, "");

        assert!(!kept.as_deref().unwrap().contains("unknown"), "{kept:?}");
    }

    /// L3: who is registered later gets what is pending.
    #[test]
    fn new_handler_gets_pending_events() {
        let stored = r#"{"billing":"done","mail":{"owed":{"failures":1,"after_us":9000000}}}"#;

        assert_eq!(due(&begin(Some(stored), 1), Duration::ZERO), ["audit"]);
    }

    /// D8: what was cut off goes back with who is done; without that it goes back as it was.
    #[test]
    fn pass_that_is_cut_off_keeps_who_is_done() {
        assert_eq!(begin(None, 0).cut_off(IDS.into_iter()), (Outcome::Released, None));

        let mut progress = begin(None, 0);
        progress.succeed(0);
        let (outcome, stored) = progress.cut_off(IDS.into_iter());

        assert_eq!(outcome, Outcome::Released);
        assert_eq!(due(&begin(stored.as_deref(), 0), Duration::ZERO), ["mail", "audit"]);
    }

    /// L4: what is known to have succeeded is not run again.
    #[test]
    fn known_success_is_done() {
        let mut progress = begin(None, 0);
        progress.succeed(0);
        progress.postpone(1, 1, SECOND);
        let (outcome, stored) = conclude(progress, Duration::ZERO, "handler `mail`: 503");
        let succeeded = Succeeded::of(&outcome, stored.as_deref()).unwrap();

        let mut again = begin(None, 0);
        again.recall(IDS.into_iter(), &succeeded);
        assert_eq!(due(&again, Duration::ZERO), ["mail", "audit"]);
        again.recall(IDS.into_iter(), &Succeeded::of(&Outcome::Done, None).unwrap());

        assert_eq!(conclude(again, Duration::ZERO, "").0, Outcome::Done);
        assert!(Succeeded::of(&Outcome::Released, None).is_none());
    }

    /// D3: an event whose process dies over it is dead with all that it owed.
    #[test]
    fn event_that_is_given_up_owes_nothing() {
        let stored = r#"{"billing":"done","mail":{"owed":{"failures":1,"after_us":0}}}"#;

        let stored = given_up(stored).unwrap();

        assert_eq!(due(&begin(Some(&stored), 4), SECOND), ["audit"]);
        assert_eq!(due(&begin(Some(&stored), 0), SECOND), ["mail", "audit"]);
        assert_eq!(given_up(&stored), None);
    }

    /// L3: no id of a handler is found in what is said of another.
    #[test]
    fn words_of_a_standing_are_no_ids() {
        let owed = Standing::Owed { failures: 2, after_us: 0, unknown: true };
        for standing in [owed, Standing::Dead { failures: 3 }, Standing::Done] {
            let text = written(&BTreeMap::from([("billing".to_owned(), standing)]));
            let mut parts = text.split('"').skip(1).step_by(2).zip(text.split('"').skip(2).step_by(2));

            let is_known = |word| word == "billing" || WORDS.contains(&word);
            assert!(parts.all(|(word, next)| is_known(word) || !next.starts_with(':')), "{text}");
        }
    }

    /// P3: a text that somebody else wrote is named.
    #[test]
    fn unreadable_text_is_named() {
        let error = Progress::begin(IDS.into_iter(), Some("[17]"), 0).unwrap_err();

        assert!(error.to_string().starts_with("the column `handlers` cannot be read: "), "{error}");
    }
}
