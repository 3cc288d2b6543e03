//! Subscribers in the process of the writer: they get events inside the transaction, and can fail it.

use std::collections::HashMap;
use std::marker::PhantomData;
use std::sync::Arc;

use crate::event::{Kind, kind_of};
use crate::runtime::BoxFuture;
use crate::store::TxStore;
use crate::{DomainEvent, Event, ListenerError};

/// A subscriber for any type, behind one pointer.
trait AnySubscriber<C>: Send + Sync {
    fn on_written<'a>(
        &'a self,
        event: &'a Event,
        connection: &'a mut C,
    ) -> BoxFuture<'a, Result<(), ListenerError>>;
}

type SharedSubscriber<C> = Arc<dyn AnySubscriber<C>>;

struct Typed<F, T> {
    subscriber: F,
    of: PhantomData<fn() -> T>,
}

impl<C, T, F> AnySubscriber<C> for Typed<F, T>
where
    C: Send,
    T: DomainEvent,
    F: for<'a> Fn(T, &'a mut C) -> BoxFuture<'a, Result<(), ListenerError>> + Send + Sync,
{
    fn on_written<'a>(
        &'a self,
        event: &'a Event,
        connection: &'a mut C,
    ) -> BoxFuture<'a, Result<(), ListenerError>> {
        match event.decode::<T>() {
            Ok(decoded) => (self.subscriber)(decoded, connection),
            Err(error) => Box::pin(std::future::ready(Err(error.into()))),
        }
    }
}

/// The subscribers of an outbox, by aggregate type and event type.
pub(crate) struct Subscribers<S: TxStore> {
    by_kind: HashMap<Kind, Vec<SharedSubscriber<S::Connection>>>,
}

impl<S: TxStore> Default for Subscribers<S> {
    fn default() -> Self {
        Self { by_kind: HashMap::new() }
    }
}

impl<S: TxStore> Subscribers<S> {
    pub(crate) fn add<T, F>(&mut self, subscriber: F)
    where
        T: DomainEvent,
        F: for<'a> Fn(T, &'a mut S::Connection) -> BoxFuture<'a, Result<(), ListenerError>>
            + Send
            + Sync
            + 'static,
    {
        let typed = Typed { subscriber, of: PhantomData::<fn() -> T> };
        self.by_kind.entry(kind_of::<T>()).or_default().push(Arc::new(typed));
    }

    /// Hands events to those who subscribed to their types, in order, until one fails.
    pub(crate) async fn hand_to(
        &self,
        events: &[Event],
        connection: &mut S::Connection,
    ) -> Result<(), ListenerError> {
        if self.by_kind.is_empty() {
            return Ok(());
        }
        for event in events {
            let subscribers = self.by_kind.get(&(event.aggregate_type(), event.event_type()));
            for subscriber in subscribers.into_iter().flatten() {
                subscriber.on_written(event, connection).await?;
            }
        }
        Ok(())
    }
}
