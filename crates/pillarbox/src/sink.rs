//! What publishes events to a broker: a run at a time, each event answered on its own.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::sync::mpsc;

use crate::runtime::BoxFuture;
use crate::{Delivery, ListenerError, Template};

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

impl<S: Sink + ?Sized> Sink for Arc<S> {
    fn publish<'a>(&'a self, run: &'a Run) -> BoxFuture<'a, ()> {
        (**self).publish(run)
    }
}

/// Why a sink did not publish an event.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct SinkError {
    kind: SinkErrorKind,
    text: String,
    after: Option<Duration>,
    is_final: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SinkErrorKind {
    Unavailable,
    Rejected,
    Unknown,
    NotSent,
}

impl SinkError {
    /// The destination is down; this says nothing about the event. No attempt is spent.
    pub fn unavailable(text: impl Into<String>) -> Self {
        Self::new(SinkErrorKind::Unavailable, text.into())
    }

    /// The destination refused this event. An attempt is spent.
    pub fn rejected(text: impl Into<String>) -> Self {
        Self::new(SinkErrorKind::Rejected, text.into())
    }

    /// The answer was lost: the event may have arrived. It is tried again, and no attempt is spent.
    pub fn unknown(text: impl Into<String>) -> Self {
        Self::new(SinkErrorKind::Unknown, text.into())
    }

    /// It was not sent, and neither the destination nor the event is to blame: an earlier event of its key failed in
    /// this run, or the time for the run was over. It is given back, and no attempt is spent.
    pub fn not_sent(text: impl Into<String>) -> Self {
        Self::new(SinkErrorKind::NotSent, text.into())
    }

    fn new(kind: SinkErrorKind, text: String) -> Self {
        Self { kind, text, after: None, is_final: false }
    }

    /// No retry can cure it: a rejected event is dead at once. Has no effect on the other kinds.
    #[must_use]
    pub fn for_good(mut self) -> Self {
        self.is_final = true;
        self
    }

    /// The destination has asked to be left alone for so long. A rejected event is tried again after it, whatever the
    /// retry policy says of the time; of a destination that is down it is the least.
    #[must_use]
    pub fn retry_after(mut self, delay: Duration) -> Self {
        self.after = Some(delay);
        self
    }

    /// Whether the destination is down, so that nothing is known of the event but that it was not published.
    pub fn is_unavailable(&self) -> bool {
        self.kind == SinkErrorKind::Unavailable
    }

    /// Whether the destination refused this very event.
    pub fn is_rejected(&self) -> bool {
        self.kind == SinkErrorKind::Rejected
    }

    /// Whether the event may have arrived all the same.
    pub fn is_unknown(&self) -> bool {
        self.kind == SinkErrorKind::Unknown
    }

    /// Whether the sink has left the event for a later run.
    pub fn is_not_sent(&self) -> bool {
        self.kind == SinkErrorKind::NotSent
    }

    /// Whether no retry can cure it.
    pub fn is_final(&self) -> bool {
        self.is_final
    }

    /// How long the destination has asked to be left alone, if it has.
    pub fn asked_delay(&self) -> Option<Duration> {
        self.after
    }

    pub(crate) fn kind(&self) -> SinkErrorKind {
        self.kind
    }

    /// What a rejection asks of the retry policy.
    pub(crate) fn into_failure(self) -> ListenerError {
        match (self.is_final, self.after) {
            (true, _) => ListenerError::permanent(self),
            (false, Some(delay)) => ListenerError::retry_after(delay, self),
            (false, None) => ListenerError::new(self),
        }
    }
}

/// A run of events for one sink.
#[derive(Debug)]
pub struct Run {
    deliveries: Vec<Delivery>,
    /// Where each event is to go, as far as its route says so; none at all if no route says anything.
    addresses: Vec<Option<Arc<Template>>>,
    answered: Vec<AtomicBool>,
    answers: mpsc::Sender<Answer>,
}

/// The place of an event in its run, and its answer.
pub(crate) type Answer = (usize, Result<(), SinkError>);

/// The answers to a run, in the order in which they come.
#[derive(Debug)]
pub struct Answers(mpsc::Receiver<Answer>);

impl Answers {
    /// The next answer and the place of its event in the run; `None` when the run is gone and all that it answered was
    /// told.
    pub async fn next(&mut self) -> Option<(usize, Result<(), SinkError>)> {
        self.0.recv().await
    }

    pub(crate) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Answer>> {
        self.0.poll_recv(cx)
    }

    /// An answer that is there already.
    pub fn waiting(&mut self) -> Option<(usize, Result<(), SinkError>)> {
        self.0.try_recv().ok()
    }
}

impl Run {
    /// A run of these events, and the answers to it; for tests of sinks, and for those who wrap one.
    pub fn new(deliveries: Vec<Delivery>) -> (Self, Answers) {
        let (answers, receiver) = mpsc::channel(deliveries.len().max(1));
        let answered = deliveries.iter().map(|_| AtomicBool::new(false)).collect();
        (Self { deliveries, addresses: Vec::new(), answered, answers }, Answers(receiver))
    }

    /// The same run, with where each event is to go: one address or none for each event.
    #[must_use]
    pub fn with_addresses(mut self, addresses: Vec<Option<Arc<Template>>>) -> Self {
        self.addresses = addresses;
        self
    }

    /// The same events to the same addresses, to be answered on their own; for those who wrap a sink.
    pub fn again(&self) -> (Self, Answers) {
        let (run, answers) = Self::new(self.deliveries.clone());
        (run.with_addresses(self.addresses.clone()), answers)
    }

    /// The events, in order.
    pub fn deliveries(&self) -> &[Delivery] {
        &self.deliveries
    }

    /// Where the event at `index` is to go (a topic, a subject, a routing key, a path), if its route says so; otherwise
    /// the sink's own address counts.
    pub fn address(&self, index: usize) -> Option<&Template> {
        self.addresses.get(index)?.as_deref()
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
