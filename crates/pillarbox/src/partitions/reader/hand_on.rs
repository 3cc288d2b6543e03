//! Doing what the lanes decide.

use super::super::{Answer, Message};
use super::Reader;
use super::reads::safely;
use crate::handler::unseen;
use crate::lanes::Step;
use crate::poller::unfit;
use crate::store::{Outcome, StoreError, Taken};

/// An event that nobody has begun to deliver, and what becomes of it.
type Refused = (Taken, Outcome);

impl Reader {
    /// Does the steps, in their order, and those that they lead to.
    pub(super) async fn follow(&mut self, steps: Vec<Step>) {
        let mut steps = std::collections::VecDeque::from(steps);
        while let Some(step) = steps.pop_front() {
            match step {
                Step::Settle(settlement) => {
                    self.wanted.expect(self.parts.runtime.clock.now(), &settlement.outcome);
                    self.parts.settler.record(settlement).await;
                }
                Step::Run { taken, is_suspect } => {
                    if let Some(refused) = self.run_or_refuse(taken, is_suspect) {
                        steps.extend(self.refused(refused));
                    }
                }
            }
        }
    }

    fn refused(&mut self, (taken, outcome): Refused) -> Vec<Step> {
        self.lanes.ended(unseen(&taken, outcome))
    }

    /// Hands an event on; or says what becomes of one that cannot run.
    fn run_or_refuse(&mut self, taken: Taken, is_suspect: bool) -> Option<Refused> {
        if let Some(error) = unfit(&taken, self.parts.config.max_starts) {
            tracing::error!(event_id = taken.event_id, error, "this event cannot be delivered");
            return Some((taken, Outcome::Dead { error, spent: false }));
        }
        if is_suspect {
            self.count_start(taken);
            return None;
        }
        self.hand_over(taken, false)
    }

    fn hand_over(&mut self, taken: Taken, alone: bool) -> Option<Refused> {
        let Ok(event) = &taken.event else { return Some((taken, Outcome::Released)) };
        let is_taken = self.parts.dispatcher.enqueue_owned(event, &taken, alone);
        (!is_taken).then_some((taken, Outcome::Released))
    }

    /// Counts the start of a suspect before it runs.
    fn count_start(&self, taken: Taken) {
        let (store, mailbox) = (self.parts.store.clone(), self.mailbox.clone());
        let step = async move {
            let counted = safely(store.start(&taken)).await;
            mailbox.tell(Message::Came(Answer::Started(Box::new(taken), counted)));
        };
        self.parts.runtime.spawner.spawn("start", Box::pin(step));
    }

    /// The start of a suspect is counted, or could not be.
    pub(super) async fn started(&mut self, taken: Taken, counted: Result<bool, StoreError>) {
        let refused = match counted {
            Ok(true) => self.hand_over(taken, true),
            Ok(false) => Some((taken, Outcome::Released)),
            Err(error) => {
                self.in_trouble(&error);
                Some((taken, Outcome::Released))
            }
        };
        if let Some(refused) = refused {
            let steps = self.refused(refused);
            self.follow(steps).await;
        }
    }
}
