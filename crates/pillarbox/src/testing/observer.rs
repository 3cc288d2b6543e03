//! Stands between the engine and those who receive events, and writes down what they are called with.

use std::sync::{Arc, Mutex, PoisonError};

use super::attempt::{Answer, Call, Log};
use crate::destination::{Destination, Leg, SinkSet};
use crate::dispatcher::{CatchPanic, shown};
use crate::handler::fallback::AnyFallback;
use crate::handler::{Entry, Failure, HandlerSet, SharedFallback};
use crate::listener::SharedListener;
use crate::registry::Receiver;
use crate::runtime::BoxFuture;
use crate::{Delivery, Event, Listener, ListenerError, Registry, Run, Sink, SinkError, Target};

/// The routes of the user's, each receiver with somebody who looks on.
pub(super) struct Observed {
    routes: Arc<dyn Registry>,
    log: Arc<Log>,
    /// Sinks and sets of handlers have an identity, and each gets one observer: as it is, and observed.
    sinks: Mutex<Vec<(Arc<SinkSet>, Target)>>,
    handlers: Mutex<Vec<(Arc<HandlerSet>, Target)>>,
}

impl Observed {
    pub(super) fn new(routes: Arc<dyn Registry>, log: Arc<Log>) -> Self {
        Self { routes, log, sinks: Mutex::default(), handlers: Mutex::default() }
    }

    fn listener(&self, listener: SharedListener) -> ObservedListener {
        ObservedListener { listener, log: self.log.clone() }
    }

    fn handlers(&self, set: &HandlerSet) -> Target {
        let observed = |entry: &Entry| Entry {
            listener: Arc::new(self.listener(entry.listener.clone())),
            ..entry.clone()
        };
        let fallback = set.fallback.clone().map(|fallback| -> SharedFallback {
            Arc::new(ObservedFallback { fallback, log: self.log.clone() })
        });
        let handlers = set.handlers.iter().map(observed).collect();
        Target(Receiver::Handlers(Arc::new(HandlerSet { handlers, fallback })))
    }

    fn sinks(&self, set: &SinkSet) -> Target {
        let observed = |leg: &Leg| {
            let sink = ObservedSink { sink: leg.destination.clone(), log: self.log.clone() };
            Leg { destination: Arc::new(Destination::new(Box::new(sink))), ..leg.clone() }
        };
        let legs = set.legs.iter().map(observed).collect();
        Target(Receiver::Sinks(Arc::new(SinkSet { legs, is_tracked: set.is_tracked })))
    }
}

impl Registry for Observed {
    fn route(&self, event: &Event) -> Option<Target> {
        Some(match self.routes.route(event)?.0 {
            Receiver::Listener(listener) => Target::listener(self.listener(listener)),
            Receiver::Handlers(set) => once(&self.handlers, &set, || self.handlers(&set)),
            Receiver::Sinks(set) => once(&self.sinks, &set, || self.sinks(&set)),
            paused @ Receiver::Paused(..) => Target(paused),
        })
    }
}

/// What was made for `original` before, or is made now.
fn once<T>(known: &Mutex<Vec<(Arc<T>, Target)>>, original: &Arc<T>, make: impl FnOnce() -> Target) -> Target {
    let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, target)) = known.iter().find(|(one, _)| Arc::ptr_eq(one, original)) {
        return target.clone();
    }
    let target = make();
    known.push((original.clone(), target.clone()));
    target
}

struct ObservedListener {
    listener: SharedListener,
    log: Arc<Log>,
}

impl Listener for ObservedListener {
    async fn on_event(&self, delivery: Delivery) -> Result<(), ListenerError> {
        let call = self.log.begin(delivery.clone(), false);
        observe(call, Box::pin(async move { self.listener.on_event_boxed(delivery).await })).await
    }
}

struct ObservedFallback {
    fallback: SharedFallback,
    log: Arc<Log>,
}

impl AnyFallback for ObservedFallback {
    fn handle_boxed(&self, failure: Failure) -> BoxFuture<'_, Result<(), ListenerError>> {
        Box::pin(async move {
            let call = self.log.begin(Delivery::clone(&failure), true);
            observe(call, Box::pin(async move { self.fallback.handle_boxed(failure).await })).await
        })
    }
}

/// Writes down how `work` ends, and lets it end so.
async fn observe(call: Call, work: BoxFuture<'_, Result<(), ListenerError>>) -> Result<(), ListenerError> {
    match CatchPanic(work).await {
        Ok(answer) => {
            call.end(match &answer {
                Ok(()) => Answer::Succeeded,
                Err(error) => Answer::Failed(shown(error)),
            });
            answer
        }
        Err(panic) => {
            call.end(Answer::Panicked(panic.clone()));
            // Without the hook: it has told of this panic before.
            std::panic::resume_unwind(Box::new(panic))
        }
    }
}

struct ObservedSink {
    sink: Arc<Destination>,
    log: Arc<Log>,
}

impl Sink for ObservedSink {
    fn publish<'a>(&'a self, run: &'a Run) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let begin = |delivery: &Delivery| Some(self.log.begin(delivery.clone(), false));
            let mut calls: Vec<Option<Call>> = run.deliveries().iter().map(begin).collect();
            let mut pass_on = |(place, answer): (usize, Result<(), SinkError>)| {
                if let Some(call) = calls[place].take() {
                    call.end(match &answer {
                        Ok(()) => Answer::Succeeded,
                        Err(error) => Answer::Failed(error.to_string()),
                    });
                }
                run.answer(place, answer);
            };
            let (own, mut answers) = run.again();
            let mut publish = CatchPanic(Box::pin(async { self.sink.sink.publish(&own).await }));
            let ended = loop {
                tokio::select! {
                    biased;
                    Some(answer) = answers.next() => pass_on(answer),
                    ended = &mut publish => break ended,
                }
            };
            while let Some(answer) = answers.waiting() {
                pass_on(answer);
            }
            if let Err(panic) = ended {
                std::panic::resume_unwind(Box::new(panic));
            }
        })
    }
}
