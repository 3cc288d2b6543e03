//! A run of events to a sink.

use std::fmt::Display;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::sync::mpsc;
use tracing::{Instrument, Span};

use super::{CatchPanic, Dispatcher, Item, shown};
use crate::registry::Destination;
use crate::retry::{Retry, RetryPolicy};
use crate::sink::{Answer, Run, SinkErrorKind};
use crate::store::Outcome;
use crate::trace::{self, CUT_OFF};
use crate::{ListenerError, SinkError};

/// What is still unanswered of a run.
struct Open {
    items: Vec<Option<Item>>,
    left: usize,
    /// When the time of the delivery is over, by the local clock.
    end: Duration,
    /// How long the destination is left alone, once it was found to be down in this run.
    pause: Option<Duration>,
    /// The spans of all events, if they have any.
    spans: Vec<Span>,
}

impl Open {
    /// Ends the span of an event, with why it failed, if it did.
    fn end_span(&mut self, index: usize, error: Option<&dyn Display>) {
        let Some(span) = self.spans.get_mut(index) else { return };
        let span = std::mem::replace(span, Span::none());
        if let Some(error) = error {
            trace::failed(&span, error);
        }
    }
}

/// How a run ended for the events that have no answer.
enum End {
    /// The sink will not answer any more, for this reason.
    Silent(String),
    /// The sink panicked.
    Panicked(String),
    /// The shutdown came first.
    CutOff,
}

impl Dispatcher {
    /// A run of events to its destination, each settled as its answer comes.
    pub(super) async fn deliver_run(&self, destination: &Arc<Destination>, items: Vec<Item>) {
        // Interceptors and sink share the time of one delivery, for the leases last no longer.
        let end = self.runtime.clock.now() + self.config.delivery_timeout;
        let items = self.admitted(items, end).await;
        let (run, mut answers) = Run::new(items.iter().map(|item| item.delivery.clone()).collect());
        let (span, spans) = self.traces.run(run.deliveries().iter());
        let left = items.len();
        let mut open = Open { items: items.into_iter().map(Some).collect(), left, end, pause: None, spans };

        let ended = self.publish(destination, &run, span, &mut answers, &mut open).await;
        // Answers that came together with the end still count.
        while let Ok(answer) = answers.try_recv() {
            self.answered(destination, &mut open, answer).await;
        }
        self.unanswered(destination, open, ended).await;
    }

    /// Publishes until every event is answered, or until it ends some other way.
    async fn publish(
        &self,
        destination: &Destination,
        run: &Run,
        span: Span,
        answers: &mut mpsc::Receiver<Answer>,
        open: &mut Open,
    ) -> End {
        let publish = async move { destination.sink.publish(run).await };
        let mut publish = CatchPanic(Box::pin(publish.instrument(span)));
        let lease = open.items.iter().flatten().next().map(|item| item.lease);
        let mut tenure_ended = std::pin::pin!(async {
            match lease {
                Some(lease) => self.tenure_ended(lease).await,
                None => std::future::pending().await,
            }
        });
        let mut out_of_time = self.runtime.clock.sleep(self.left_until(open.end));
        while open.left > 0 {
            tokio::select! {
                biased;
                Some(answer) = answers.recv() => self.answered(destination, open, answer).await,
                ended = &mut publish => {
                    return match ended {
                        Ok(()) => End::Silent("the sink did not answer for this event".to_owned()),
                        Err(panic) => End::Panicked(format!("the sink panicked: {panic}")),
                    };
                }
                () = self.shutdown.over() => return End::CutOff,
                () = &mut tenure_ended => return End::CutOff,
                () = &mut out_of_time => {
                    let limit = self.config.delivery_timeout;
                    return End::Silent(format!("the sink did not answer within {limit:?}"));
                }
            }
        }
        End::CutOff
    }

    /// The items that no interceptor takes out of the run.
    async fn admitted(&self, items: Vec<Item>, end: Duration) -> Vec<Item> {
        if self.interceptors.is_empty() {
            return items;
        }
        let mut admitted = Vec::with_capacity(items.len());
        for item in items {
            let limit = self.left_until(end);
            if limit.is_zero() {
                self.settle(&item, Outcome::Released).await;
                continue;
            }
            let hooks = CatchPanic(Box::pin(self.before(&item.delivery)));
            let hooked = tokio::select! {
                biased;
                hooked = self.runtime.timeout(limit, hooks) => hooked,
                () = self.shutdown.over() => {
                    self.settle(&item, Outcome::Released).await;
                    continue;
                }
            };
            let error = match hooked {
                Some(Ok(Ok(()))) => {
                    admitted.push(item);
                    continue;
                }
                Some(Ok(Err(error))) => error,
                Some(Err(panic)) => ListenerError::new(format!("an interceptor panicked: {panic}")),
                None => ListenerError::new(format!("an interceptor did not answer within {limit:?}")),
            };
            self.after(&item.delivery, Some(&shown(&error)), end).await;
            self.settle(&item, self.after_failure(&*self.retry, item.lease.attempts, &error)).await;
        }
        admitted
    }

    async fn answered(&self, destination: &Destination, open: &mut Open, (index, answer): Answer) {
        let Some(item) = open.items[index].take() else { return };
        open.left -= 1;
        open.end_span(index, answer.as_ref().err().map(|error| error as &dyn Display));
        destination.trust(item.lease.seq);
        let Err(error) = answer else {
            destination.misses.store(0, Ordering::Relaxed);
            self.after(&item.delivery, None, open.end).await;
            return self.settle(&item, Outcome::Done).await;
        };
        self.after(&item.delivery, Some(&shown(&error)), open.end).await;
        let outcome = match error.kind() {
            SinkErrorKind::Rejected => self.after_failure(&*self.retry, item.lease.attempts, &error.into()),
            SinkErrorKind::Unavailable | SinkErrorKind::Unknown => {
                let after = *open.pause.get_or_insert_with(|| self.pause(destination));
                Outcome::Retry { after, error: shown(&error), spent: false }
            }
        };
        self.settle(&item, outcome).await;
    }

    /// What becomes of events that the sink did not answer: they may have arrived, and are tried again alone, so
    /// that the one over which the sink stumbles holds up no other. If it panics over one alone, that one failed.
    async fn unanswered(&self, destination: &Destination, mut open: Open, ended: End) {
        let was_alone = open.items.len() == 1;
        for index in 0..open.items.len() {
            let answer = match &ended {
                End::CutOff => {
                    if let Some(item) = open.items[index].take() {
                        open.end_span(index, Some(&CUT_OFF));
                        self.settle(&item, Outcome::Released).await;
                    }
                    continue;
                }
                End::Panicked(why) if was_alone => Err(SinkError::rejected(why.clone())),
                End::Panicked(why) | End::Silent(why) => Err(SinkError::unknown(why.clone())),
            };
            let seq = open.items[index].as_ref().map(|item| item.lease.seq);
            self.answered(destination, &mut open, (index, answer)).await;
            if let Some(seq) = seq {
                destination.doubt(seq);
            }
        }
    }

    /// How long a destination that is down is left alone: longer each time, up to a minute.
    fn pause(&self, destination: &Destination) -> Duration {
        let misses = destination.misses.fetch_add(1, Ordering::Relaxed).saturating_add(1);
        Retry::default().next_delay(misses, self.runtime.fraction())
    }
}
