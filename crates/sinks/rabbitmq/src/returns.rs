//! Which event was returned: the server says so by its id, the client attaches it to some confirm.
//!
//! A mandatory message that no queue takes comes back, and is confirmed all the same. The return comes before the
//! confirm of its message. The client keeps returns in a queue and hands the oldest to whichever confirm comes next,
//! of this message or of another; so the place where a return is found says nothing, and a confirm that carries the
//! return of another message does not yet say that its own was not returned.
//!
//! What holds: at most one return is attached to a confirm, and none only if the queue was empty. A confirm that carries
//! none is therefore final once all confirms that came before it are seen; one that carries another's return waits until
//! a later one carries none, or until all of the channel are there.

use std::collections::HashSet;

/// A confirm of one event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Confirm<Id> {
    /// The event's place in the run.
    pub(crate) index: usize,
    pub(crate) event_id: Id,
    /// The event whose return was attached to it.
    pub(crate) returned: Option<Id>,
}

/// What is known of returns on one channel.
#[derive(Debug)]
pub(crate) struct Returns<Id> {
    returned: HashSet<Id>,
    /// Confirmed, and perhaps returned.
    held: Vec<(usize, Id)>,
}

impl<Id: std::hash::Hash + Eq + Clone> Returns<Id> {
    pub(crate) fn new() -> Self {
        Self { returned: HashSet::new(), held: Vec::new() }
    }

    /// Takes all confirms that were there at one moment, after those of earlier moments. `is_last` says that no others
    /// are owed. Gives the events of which it is certain now whether they were returned.
    pub(crate) fn confirmed(&mut self, confirms: Vec<Confirm<Id>>, is_last: bool) -> Vec<(usize, bool)> {
        self.returned.extend(confirms.iter().filter_map(|confirm| confirm.returned.clone()));
        let were_all_seen = is_last || confirms.iter().any(|confirm| confirm.returned.is_none());
        let mut certain: Vec<(usize, bool)> = Vec::with_capacity(confirms.len());
        self.held.retain(|(index, id)| {
            let was_returned = self.returned.contains(id);
            let is_certain = were_all_seen || was_returned;
            if is_certain {
                certain.push((*index, was_returned));
            }
            !is_certain
        });
        for Confirm { index, event_id, returned } in confirms {
            let was_returned = self.returned.contains(&event_id);
            if was_returned || returned.is_none() || is_last {
                certain.push((index, was_returned));
            } else {
                self.held.push((index, event_id));
            }
        }
        certain
    }

    /// Those that were confirmed and of which it will never be known whether they were returned.
    pub(crate) fn into_uncertain(self) -> impl Iterator<Item = usize> {
        self.held.into_iter().map(|(index, _)| index)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    fn confirm(index: usize, returned: Option<usize>) -> Confirm<usize> {
        Confirm { index, event_id: index, returned }
    }

    /// Guarantee 3: a return that is attached to the confirm of another event is told of the right one.
    #[test]
    fn return_is_told_of_its_own_event() {
        let mut returns = Returns::new();

        assert_eq!(returns.confirmed(vec![confirm(0, Some(1))], false), []);
        assert_eq!(returns.confirmed(vec![confirm(1, None)], true), [(0, false), (1, true)]);
    }

    /// Guarantee 3: an event whose own return is still behind that of another is not taken for delivered.
    #[test]
    fn confirm_with_the_return_of_another_waits() {
        let mut returns = Returns::new();

        assert_eq!(returns.confirmed(vec![confirm(1, Some(0))], false), []);
        assert_eq!(returns.confirmed(vec![confirm(2, Some(1))], false), [(1, true)]);
        assert_eq!(returns.confirmed(vec![confirm(3, None)], false), [(2, false), (3, false)]);
        assert_eq!(returns.into_uncertain().count(), 0);
    }

    /// What happens on one channel: a return, a confirm, or our looking at what is there.
    #[derive(Clone, Debug)]
    enum Step {
        Return(usize),
        Confirm(usize),
        Look,
    }

    /// The events, each returned or not, in an order that the server may choose: returns before their own confirms.
    fn histories() -> impl Strategy<Value = (Vec<bool>, Vec<Step>)> {
        let events = prop::collection::vec(any::<bool>(), 1..12);
        events.prop_flat_map(|are_returned| {
            let count = are_returned.len();
            let ranks = prop::collection::vec((0_u32..1000, 0_u32..1000), count);
            let looks = prop::collection::vec(0_u32..1000, 0..8);
            (Just(are_returned), ranks, looks).prop_map(|(are_returned, ranks, looks)| {
                let mut steps: Vec<(u32, u8, Step)> = Vec::new();
                for (event, (one, other)) in ranks.into_iter().enumerate() {
                    if are_returned[event] {
                        steps.push((one.min(other), 0, Step::Return(event)));
                    }
                    steps.push((one.max(other), 1, Step::Confirm(event)));
                }
                steps.extend(looks.into_iter().map(|at| (at, 2, Step::Look)));
                steps.sort_by_key(|(at, order, _)| (*at, *order));
                (are_returned, steps.into_iter().map(|(_, _, step)| step).collect())
            })
        })
    }

    proptest! {
        /// Guarantee 3: whatever order returns, confirms and looks come in, every event is told once, and rightly.
        #[test]
        fn every_event_is_told_once_and_rightly((are_returned, steps) in histories()) {
            let (mut returns, mut waiting, mut seen) = (Returns::new(), VecDeque::new(), Vec::new());
            let (mut told, mut owed) = (Vec::new(), are_returned.len());

            for step in steps.into_iter().chain([Step::Look]) {
                match step {
                    Step::Return(event) => waiting.push_back(event),
                    Step::Confirm(event) => {
                        // As the client does it.
                        seen.push(confirm(event, waiting.pop_front()));
                        owed -= 1;
                    }
                    Step::Look => told.extend(returns.confirmed(std::mem::take(&mut seen), owed == 0)),
                }
            }

            told.sort_unstable();
            let expected: Vec<(usize, bool)> = are_returned.into_iter().enumerate().collect();
            prop_assert_eq!(told, expected);
        }
    }
}
