//! What publishes events to a broker: a run at a time, each event answered on its own.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::mpsc;

use crate::Delivery;
use crate::runtime::BoxFuture;

/// Publishes runs of events.
///
/// A worker that awaits a broker's acknowledgement for each event sends one event per round trip. A sink
/// gets a run instead, sends it in order, and answers each event as its acknowledgement comes.
///
/// # Contract
/// - `Ok` for an event means that the broker has acknowledged it.
/// - Every event is answered once; those unanswered when the future ends, panics, or is dropped at the time
///   limit count as [`SinkError::unknown`], and come again in runs of one. A panic over such a run counts as
///   [`SinkError::rejected`].
/// - A sink does not retry: it says whether trying again helps, the engine says when.
/// - Events of one key are sent in the order of the run.
pub trait Sink: Send + Sync + 'static {
    /// Publishes a run, answering each of its events through [`Run::answer`].
    fn publish<'a>(&'a self, run: &'a Run) -> BoxFuture<'a, ()>;
}

/// Why a sink did not publish an event.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct SinkError {
    kind: SinkErrorKind,
    text: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SinkErrorKind {
    Unavailable,
    Rejected,
    Unknown,
}

impl SinkError {
    /// The destination is down; this says nothing about the event. No attempt is spent.
    pub fn unavailable(text: impl Into<String>) -> Self {
        Self { kind: SinkErrorKind::Unavailable, text: text.into() }
    }

    /// The destination refused this event. An attempt is spent.
    pub fn rejected(text: impl Into<String>) -> Self {
        Self { kind: SinkErrorKind::Rejected, text: text.into() }
    }

    /// The answer was lost: the event may have arrived. It is tried again, and no attempt is spent.
    pub fn unknown(text: impl Into<String>) -> Self {
        Self { kind: SinkErrorKind::Unknown, text: text.into() }
    }

    pub(crate) fn kind(&self) -> SinkErrorKind {
        self.kind
    }
}

/// A run of events for one sink.
#[derive(Debug)]
pub struct Run {
    deliveries: Vec<Delivery>,
    answered: Vec<AtomicBool>,
    answers: mpsc::Sender<Answer>,
}

/// The place of an event in its run, and its answer.
pub(crate) type Answer = (usize, Result<(), SinkError>);

impl Run {
    pub(crate) fn new(deliveries: Vec<Delivery>) -> (Self, mpsc::Receiver<Answer>) {
        let (answers, receiver) = mpsc::channel(deliveries.len().max(1));
        let answered = deliveries.iter().map(|_| AtomicBool::new(false)).collect();
        (Self { deliveries, answered, answers }, receiver)
    }

    /// The events, in order.
    pub fn deliveries(&self) -> &[Delivery] {
        &self.deliveries
    }

    /// Answers the event at `index`; a second answer is ignored.
    ///
    /// # Panics
    /// If the run has no event at `index`.
    pub fn answer(&self, index: usize, answer: Result<(), SinkError>) {
        if !self.answered[index].swap(true, Ordering::Relaxed) {
            // The channel has room for one answer to each event.
            let _ = self.answers.try_send((index, answer));
        }
    }

    /// Answers every event that has no answer yet.
    pub fn answer_rest(&self, answer: &Result<(), SinkError>) {
        for index in 0..self.deliveries.len() {
            self.answer(index, answer.clone());
        }
    }
}

/// A sink that keeps what it gets, as the reference for other sinks and for tests.
#[derive(Clone)]
pub struct MemorySink {
    published: Arc<Mutex<Vec<Delivery>>>,
    verdict: Arc<VerdictFn>,
}

type VerdictFn = dyn Fn(&Delivery) -> Result<(), SinkError> + Send + Sync;

impl MemorySink {
    /// A sink that acknowledges everything.
    pub fn new() -> Self {
        Self::answering(|_| Ok(()))
    }

    /// A sink that answers as `verdict` says, and keeps what it acknowledged.
    pub fn answering(verdict: impl Fn(&Delivery) -> Result<(), SinkError> + Send + Sync + 'static) -> Self {
        Self { published: Arc::default(), verdict: Arc::new(verdict) }
    }

    /// What was acknowledged so far, in order.
    pub fn published(&self) -> Vec<Delivery> {
        self.published.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Default for MemorySink {
    fn default() -> Self {
        Self::new()
    }
}

impl std::fmt::Debug for MemorySink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MemorySink").finish_non_exhaustive()
    }
}

impl Sink for MemorySink {
    fn publish<'a>(&'a self, run: &'a Run) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            for (index, delivery) in run.deliveries().iter().enumerate() {
                let answer = (self.verdict)(delivery);
                if answer.is_ok() {
                    self.published.lock().unwrap_or_else(PoisonError::into_inner).push(delivery.clone());
                }
                run.answer(index, answer);
            }
        })
    }
}
