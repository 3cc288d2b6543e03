//! Values that are captured from the writer's surroundings when an event is written.

use std::sync::Arc;

use crate::dispatcher::caught;
use crate::{Event, EventError, Headers};

/// Captures values from the surroundings of whoever writes: a trace, a tenant, who is logged in.
///
/// A closure is one:
///
/// ```
/// use pillarbox::{Headers, MemoryStore, Outbox};
///
/// # async fn start() -> Result<(), Box<dyn std::error::Error>> {
/// let outbox = Outbox::builder(MemoryStore::new())
///     .context(|| Headers::from_iter([("service", "shop"), ("version", "17")]))
///     .start()?;
/// # Ok(())
/// # }
/// ```
///
/// # Contract
/// - It is asked once for every call that writes, on the writer's task, and must be quick.
/// - Of several the last one wins where they name the same thing. What the event's type says wins over all of them, and
///   what is given by hand over that.
/// - A panic in it is logged, and provides nothing: it fails no transaction.
pub trait ContextProvider: Send + Sync + 'static {
    /// What there is to capture now.
    fn provide(&self) -> Headers;
}

impl<F: Fn() -> Headers + Send + Sync + 'static> ContextProvider for F {
    fn provide(&self) -> Headers {
        self()
    }
}

/// The providers of an outbox, in their order.
#[derive(Clone, Default)]
pub(crate) struct Providers(Vec<Arc<dyn ContextProvider>>);

impl Providers {
    pub(crate) fn add(&mut self, provider: impl ContextProvider) {
        self.0.push(Arc::new(provider));
    }

    /// Adds what is captured now to all of these events.
    pub(crate) fn capture(&self, events: &mut [Event]) -> Result<(), EventError> {
        if self.0.is_empty() || events.is_empty() {
            return Ok(());
        }
        let mut captured = Headers::new();
        for provider in &self.0 {
            match caught(|| provider.provide()) {
                Ok(provided) => {
                    provided.iter().for_each(|(name, value)| captured.insert(name, value));
                }
                Err(panic) => tracing::error!(panic, "a context provider panicked; it provides nothing"),
            }
        }
        events.iter_mut().try_for_each(|event| event.add_context(&captured))
    }
}
