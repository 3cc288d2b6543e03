//! What was told of which event, so that only news is told.

use std::collections::{BTreeMap, BTreeSet};

use pillarbox::store::{Outline, Status};

use super::happening::Happening;

/// How far below the highest number events are expected that are committed late.
pub(super) const WINDOW: i64 = 1_000;
/// The most events that are looked at again; beyond it the oldest are forgotten.
const MOST_OPEN: usize = 10_000;

/// How far the table was told of, and what may still change.
pub(super) struct Watch {
    highest: i64,
    /// Events that were told of and are not done or dead.
    open: BTreeMap<i64, Outline>,
    /// Numbers that nobody has: of transactions that are open, or were rolled back, or of rows that are deleted.
    missing: BTreeSet<i64>,
    dropped: u64,
}

impl Watch {
    /// A watch for events with higher numbers than this.
    pub(super) fn behind(number: i64) -> Self {
        Self { highest: number, open: BTreeMap::new(), missing: BTreeSet::new(), dropped: 0 }
    }

    /// The highest number that was seen.
    pub(super) fn highest(&self) -> i64 {
        self.highest
    }

    /// Numbers to look at again, in their order.
    pub(super) fn open_numbers(&self) -> Vec<i64> {
        let mut numbers: Vec<i64> = self.open.keys().chain(&self.missing).copied().collect();
        numbers.sort_unstable();
        numbers
    }

    /// An event with this number is there, and is not told of.
    pub(super) fn pass_over(&mut self, number: i64) {
        self.pass_to(number);
        self.missing.remove(&number);
    }

    /// Numbers up to this one were given, and may come late.
    pub(super) fn pass_to(&mut self, number: i64) {
        let first = (self.highest + 1).max(number.saturating_sub(WINDOW));
        self.missing.extend(first..=number);
        self.highest = self.highest.max(number);
        let lowest = self.highest.saturating_sub(WINDOW);
        while self.missing.first().is_some_and(|first| *first < lowest) {
            self.missing.pop_first();
        }
    }

    /// A row is as it is. Tells what has happened to it, if it is one of those that are shown.
    pub(super) fn came(
        &mut self,
        outline: &Outline,
        is_shown: impl FnOnce(&Outline) -> bool,
    ) -> Vec<Happening> {
        let number = outline.seq;
        let is_new = number > self.highest || self.missing.contains(&number);
        self.pass_over(number);
        let mut happened = Vec::new();
        match self.open.remove(&number) {
            Some(before) => happened.extend(changed(Some(&before), outline)),
            None if is_new && is_shown(outline) => {
                happened.push(Happening::Written);
                happened.extend(changed(None, outline));
            }
            // It is not shown, or was forgotten.
            None => return happened,
        }
        if !matches!(outline.status, Ok(Status::Done | Status::Dead)) {
            self.remember(outline);
        }
        happened
    }

    /// A row is gone; returns it if it was told of.
    pub(super) fn vanished(&mut self, number: i64) -> Option<Outline> {
        self.open.remove(&number)
    }

    /// How many events were forgotten since it was asked last.
    pub(super) fn take_dropped(&mut self) -> u64 {
        std::mem::take(&mut self.dropped)
    }

    fn remember(&mut self, outline: &Outline) {
        self.open.insert(outline.seq, outline.clone());
        if self.open.len() > MOST_OPEN {
            self.open.pop_first();
            self.dropped += 1;
        }
    }
}

/// What a row says that it did not say before.
fn changed(before: Option<&Outline>, now: &Outline) -> Option<Happening> {
    let is_as_before = before.is_some_and(|before| {
        (before.status, before.attempts, &before.reason) == (now.status, now.attempts, &now.reason)
    });
    if is_as_before {
        return None;
    }
    let has_waited = before.is_some_and(|before| before.attempts == now.attempts && before.reason.is_some());
    match now.status {
        Ok(Status::Done) => Some(Happening::Delivered),
        Ok(Status::Dead) => Some(Happening::Dead),
        Ok(Status::Retry) if now.reason.is_some() => Some(Happening::Waits),
        // What it waited for is over.
        Ok(Status::Retry) if has_waited => None,
        Ok(Status::Retry) => Some(Happening::Retry),
        Ok(Status::New) | Err(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pillarbox::Timestamp;

    fn outline(seq: i64, status: Status) -> Outline {
        Outline {
            seq,
            event_id: format!("id-{seq}"),
            event_type: "OrderPlaced".into(),
            aggregate_id: None,
            key: None,
            status: Ok(status),
            attempts: 0,
            created_at: Timestamp::from_micros(0),
            done_at: None,
            last_error: None,
            reason: None,
        }
    }

    /// M5: what has become of an event is told once, and nothing of it when it is done.
    #[test]
    fn news_is_told_once() {
        let mut watch = Watch::behind(0);
        let failed = Outline { attempts: 1, ..outline(1, Status::Retry) };
        let waits = Outline { reason: Some("paused".into()), ..failed.clone() };

        let told: Vec<_> =
            [outline(1, Status::New), failed.clone(), failed.clone(), waits.clone(), waits, failed]
                .iter()
                .map(|outline| watch.came(outline, |_| true))
                .collect();

        assert_eq!(
            told,
            [
                vec![Happening::Written],
                vec![Happening::Retry],
                vec![],
                vec![Happening::Waits],
                vec![],
                vec![]
            ]
        );
        assert_eq!(watch.open_numbers(), [1]);
        assert_eq!(watch.came(&outline(1, Status::Done), |_| true), [Happening::Delivered]);
        assert_eq!(watch.open_numbers(), Vec::<i64>::new());
    }

    /// M5: a number that is committed after a higher one is told of when it comes; so are those below the start.
    #[test]
    fn late_commits_are_told() {
        let mut watch = Watch::behind(10);
        watch.pass_over(11);
        watch.pass_to(12);
        watch.came(&outline(15, Status::Done), |_| true);

        assert_eq!(watch.open_numbers(), [12, 13, 14]);
        assert_eq!(watch.came(&outline(12, Status::New), |_| true), [Happening::Written]);
        assert_eq!(
            watch.came(&outline(13, Status::Done), |_| true),
            [Happening::Written, Happening::Delivered]
        );
        assert_eq!(watch.open_numbers(), [12, 14]);
        assert_eq!(watch.vanished(14), None, "it was never seen");
        assert!(watch.vanished(12).is_some());
    }

    /// M5: however many numbers are missing, and however many events wait, a bounded number is looked at again.
    #[test]
    fn what_is_looked_at_is_bounded() {
        let mut watch = Watch::behind(0);
        watch.came(&outline(5_000_000, Status::Done), |_| true);
        assert_eq!(watch.open_numbers().len() as i64, WINDOW);

        for number in 0..MOST_OPEN as i64 + 7 {
            watch.came(&outline(5_000_001 + number, Status::New), |_| true);
        }

        assert_eq!(watch.take_dropped(), 7);
        assert_eq!(watch.take_dropped(), 0);
        assert_eq!(watch.open.len(), MOST_OPEN);
    }

    /// M5: what is not shown is not remembered.
    #[test]
    fn what_is_not_shown_is_not_remembered() {
        let mut watch = Watch::behind(0);

        assert_eq!(watch.came(&outline(1, Status::New), |_| false), []);
        assert_eq!(watch.open_numbers(), Vec::<i64>::new());
    }
}
