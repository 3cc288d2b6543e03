//! A listener that asks the test.

use pillarbox::{Delivery, Listener, ListenerError};
use tokio::sync::{mpsc, oneshot};

/// A listener whose every call waits for the answer that the [`Desk`] gives.
#[derive(Clone, Debug)]
pub struct Counter(mpsc::UnboundedSender<Call>);

/// Where the calls of a [`Counter`] arrive.
#[derive(Debug)]
pub struct Desk(mpsc::UnboundedReceiver<Call>);

/// One delivery that waits for its answer. Dropping it answers with an error.
#[derive(Debug)]
#[must_use = "the listener waits for an answer"]
pub struct Call {
    /// What was delivered.
    pub delivery: Delivery,
    answer: oneshot::Sender<Result<(), ListenerError>>,
}

impl Desk {
    /// A listener, and the desk at which its calls are answered.
    pub fn open() -> (Counter, Self) {
        let (calls, desk) = mpsc::unbounded_channel();
        (Counter(calls), Self(desk))
    }

    /// The next call; waits until there is one.
    ///
    /// # Panics
    /// If the outbox is gone.
    pub async fn next(&mut self) -> Call {
        self.0.recv().await.expect("the outbox is running")
    }

    /// The next call, if one waits.
    pub fn waiting(&mut self) -> Option<Call> {
        self.0.try_recv().ok()
    }

    /// The next delivery, answered with success.
    pub async fn accept(&mut self) -> Delivery {
        let call = self.next().await;
        let delivery = call.delivery.clone();
        call.succeed();
        delivery
    }

    /// The next `count` deliveries, each answered with success as it comes.
    pub async fn accept_many(&mut self, count: usize) -> Vec<Delivery> {
        let mut deliveries = Vec::with_capacity(count);
        while deliveries.len() < count {
            deliveries.push(self.accept().await);
        }
        deliveries
    }
}

impl Call {
    /// Answers that the event was handled.
    pub fn succeed(self) {
        // The listener may have been cut off.
        let _ = self.answer.send(Ok(()));
    }

    /// Answers with an error.
    pub fn fail(self, error: impl Into<ListenerError>) {
        let _ = self.answer.send(Err(error.into()));
    }

    /// Whether nobody waits for the answer any more: the delivery was cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.answer.is_closed()
    }
}

impl Listener for Counter {
    async fn on_event(&self, delivery: Delivery) -> Result<(), ListenerError> {
        let (answer, answered) = oneshot::channel();
        self.0.send(Call { delivery, answer }).map_err(|_| ListenerError::new("the desk is closed"))?;
        answered.await.unwrap_or_else(|_| Err(ListenerError::new("the call was dropped")))
    }
}
