//! Answers in the order of each key: as far as its events were acknowledged, and no further.

use std::collections::HashMap;

use pillarbox::{Run, SinkError};

/// What is known of the events of a run.
///
/// The events of a key are answered in their order. Once one of them is not published, none that follows it is
/// answered with success, for it would be settled before the one that comes again.
pub(crate) struct Prefixes<'r> {
    run: &'r Run,
    keys: Vec<Key>,
    places: Vec<Place>,
}

/// The events of one key, or the only one of an event that has none.
struct Key {
    /// The first event that is not answered.
    head: Option<usize>,
    last: usize,
    /// Whether it is known that one of them is not published.
    is_broken: bool,
    /// Whether that was answered.
    has_failed: bool,
}

struct Place {
    key: usize,
    /// The next event of the same key.
    next: Option<usize>,
    /// What became of the event, until that is answered.
    outcome: Option<Result<(), SinkError>>,
}

impl<'r> Prefixes<'r> {
    pub(crate) fn of(run: &'r Run) -> Self {
        let (mut keys, mut known) = (Vec::<Key>::new(), HashMap::new());
        let mut places = Vec::<Place>::with_capacity(run.deliveries().len());
        for (index, delivery) in run.deliveries().iter().enumerate() {
            let found = delivery.key().and_then(|key| known.get(key).copied());
            let key = found.unwrap_or(keys.len());
            if found.is_some() {
                places[keys[key].last].next = Some(index);
                keys[key].last = index;
            } else {
                keys.push(Key { head: Some(index), last: index, is_broken: false, has_failed: false });
                known.extend(delivery.key().map(|name| (name, key)));
            }
            places.push(Place { key, next: None, outcome: None });
        }
        Self { run, keys, places }
    }

    /// Whether an earlier event of the same key is known not to be published, so that this one must not be sent. Asked
    /// in the order of the run.
    pub(crate) fn is_broken_before(&self, index: usize) -> bool {
        self.keys[self.places[index].key].is_broken
    }

    /// Takes note of what became of an event, and answers as far as that is possible.
    pub(crate) fn settle(&mut self, index: usize, outcome: Result<(), SinkError>) {
        let key = &mut self.keys[self.places[index].key];
        key.is_broken |= outcome.is_err();
        self.places[index].outcome = Some(outcome);
        while let Some(head) = key.head {
            let Some(outcome) = self.places[head].outcome.take() else { return };
            let outcome = if key.has_failed { outcome.and_then(|()| Err(comes_again())) } else { outcome };
            key.has_failed |= outcome.is_err();
            key.head = self.places[head].next;
            self.run.answer(head, outcome);
        }
    }
}

/// The answer to an event that is not sent because of an earlier one.
pub(crate) fn held_back() -> SinkError {
    SinkError::not_sent("an earlier event of the same key was not published, so this one was not sent")
}

fn comes_again() -> SinkError {
    SinkError::unknown(
        "it was acknowledged, but an earlier event of the same key was not; it comes again after that one",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use pillarbox::{Answers, Delivery, Event, Source, Timestamp};

    fn run_of(keys: &[Option<&str>]) -> (Run, Answers) {
        let delivery = |key: &Option<&str>| {
            let builder = Event::builder("OrderPlaced").json_text("{}");
            let event = match key {
                Some(key) => builder.key(*key).build().unwrap(),
                None => builder.build().unwrap(),
            };
            Delivery::new(event, 1, Timestamp::from_micros(0), Source::Cold)
        };
        Run::new(keys.iter().map(delivery).collect())
    }

    /// The places that were answered since the last look, and how: `true` is success.
    fn answered(answers: &mut Answers) -> Vec<(usize, bool)> {
        std::iter::from_fn(|| answers.waiting()).map(|(index, answer)| (index, answer.is_ok())).collect()
    }

    /// O1: an acknowledgement waits for those of the same key before it, and for no other.
    #[test]
    fn answers_keep_the_order_of_their_key() {
        let (run, mut answers) = run_of(&[Some("a"), Some("b"), Some("a"), None, None]);
        let mut prefixes = Prefixes::of(&run);

        for index in [2, 4, 1, 3] {
            prefixes.settle(index, Ok(()));
        }
        assert_eq!(answered(&mut answers), [(4, true), (1, true), (3, true)]);

        prefixes.settle(0, Ok(()));
        assert_eq!(answered(&mut answers), [(0, true), (2, true)]);
    }

    /// O1: after an event that was not published, nothing of its key succeeds; other keys do.
    #[test]
    fn nothing_succeeds_behind_a_failure_of_its_key() {
        let (run, mut answers) = run_of(&[Some("a"), Some("a"), Some("b"), Some("a")]);
        let mut prefixes = Prefixes::of(&run);

        prefixes.settle(3, Ok(()));
        prefixes.settle(1, Err(SinkError::rejected("too large").for_good()));
        assert_eq!(answered(&mut answers), []);
        assert!(prefixes.is_broken_before(3) && !prefixes.is_broken_before(2));

        prefixes.settle(2, Ok(()));
        prefixes.settle(0, Ok(()));
        let told: Vec<_> = std::iter::from_fn(|| answers.waiting()).collect();
        let [(2, Ok(())), (0, Ok(())), (1, Err(own)), (3, Err(later))] = told.as_slice() else {
            panic!("{told:?}")
        };
        assert!(own.is_rejected() && own.is_final());
        assert!(later.is_unknown(), "it was acknowledged: {later:?}");
    }

    /// O1: an event without a key waits for none and holds none.
    #[test]
    fn events_without_a_key_stand_alone() {
        let (run, mut answers) = run_of(&[None, None, None]);
        let mut prefixes = Prefixes::of(&run);

        prefixes.settle(1, Err(SinkError::unknown("lost")));
        prefixes.settle(2, Ok(()));

        assert!(!prefixes.is_broken_before(0));
        assert_eq!(answered(&mut answers), [(1, false), (2, true)]);
    }
}
