//! Handlers: several receivers of one event, of which each succeeds, retries and falls back on its own.

pub(crate) mod fallback;
mod progress;
mod remembered;
mod revision;

use std::collections::{BTreeSet, HashMap};
use std::future::Future;
use std::marker::PhantomData;
use std::sync::Arc;

pub use fallback::{Failure, Fallback};
pub(crate) use fallback::{SharedFallback, TypedFallback};
pub(crate) use progress::{Progress, Succeeded, Trouble, unseen};
pub(crate) use remembered::Remembered;
pub(crate) use revision::{Revised, State, dropped, renamed, states};

use crate::event::{Kind, kind_of};
use crate::listener::SharedListener;
use crate::registry::{Receiver, Registry, Target};
use crate::retry::{RetryError, RetryPolicy};
use crate::{Delivery, DomainEvent, Event, Listener, ListenerError};

/// Handles events of one type, decoded.
///
/// An async closure with two arguments is a handler, and so is any type that implements this:
///
/// ```
/// use pillarbox::{Delivery, Handler, ListenerError};
/// # use pillarbox::{DomainEvent, Json};
/// # #[derive(serde::Serialize, serde::Deserialize)]
/// # struct OrderPlaced { order_id: String }
/// # impl DomainEvent for OrderPlaced {
/// #     const EVENT_TYPE: &'static str = "OrderPlaced";
/// #     type Codec = Json;
/// # }
///
/// struct Billing;
///
/// impl Handler<OrderPlaced> for Billing {
///     async fn handle(&self, order: OrderPlaced, delivery: Delivery) -> Result<(), ListenerError> {
///         println!("invoice for {}, attempt {}", order.order_id, delivery.attempt());
///         Ok(())
///     }
/// }
/// ```
///
/// # Contract
/// That of [`Listener`]: `Ok` means done, the same event may come again, and the future may be dropped at any await.
pub trait Handler<T>: Send + Sync + 'static {
    /// Handles one event. The delivery has its id, key, context and all else that is known; its
    /// [attempt](Delivery::attempt) is that of this handler.
    fn handle(&self, event: T, delivery: Delivery) -> impl Future<Output = Result<(), ListenerError>> + Send;

    /// The retry policy of this handler; by default that of the outbox.
    fn retry_policy(&self) -> Option<Arc<dyn RetryPolicy>> {
        None
    }
}

impl<T, F, Answer, E> Handler<T> for F
where
    T: Send + 'static,
    F: Fn(T, Delivery) -> Answer + Send + Sync + 'static,
    Answer: Future<Output = Result<(), E>> + Send,
    E: Into<ListenerError>,
{
    async fn handle(&self, event: T, delivery: Delivery) -> Result<(), ListenerError> {
        self(event, delivery).await.map_err(Into::into)
    }
}

/// What is wrong with a set of handlers.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum HandlersError {
    /// Two handlers have one id.
    #[error("two handlers have the id `{id}`; each needs its own, by which its progress is stored")]
    SameId {
        /// The id.
        id: String,
    },
    /// An id has a form that cannot be stored or typed.
    #[error("`{id}` is no id of a handler; use 1 to 64 letters, digits, `.`, `_` and `-`")]
    BadId {
        /// The id.
        id: String,
    },
    /// An id is a word that stands in what is stored of handlers, so that nobody could look for it there.
    #[error("`{id}` is no id of a handler, but a word for how far one has come; choose another")]
    ReservedId {
        /// The id.
        id: String,
    },
    /// Two fallbacks are for one type.
    #[error("two fallbacks are for `{event_type}` of `{aggregate_type}`; one serves all its handlers")]
    SecondFallback {
        /// The aggregate type.
        aggregate_type: String,
        /// The event type.
        event_type: String,
    },
    /// A retry policy is for a handler that does not exist.
    #[error("there is a retry policy for the handler `{id}`, but no such handler; there are: {known}")]
    NoSuchHandler {
        /// The id that was given.
        id: String,
        /// The ids that exist.
        known: String,
    },
    /// A retry policy contradicts itself.
    #[error("the retry policy of the handler `{id}`: {error}")]
    Retry {
        /// The handler.
        id: String,
        /// What is wrong with it.
        error: RetryError,
    },
}

/// A set of handlers: for each event first those of its type, then those of any, in the order of registration.
///
/// Each has an id that you give and keep: by it is stored, with the event, who is done, who is owed and who is dead. So
/// one that has succeeded is not run again because another failed, and attempts are counted for each. An event is done
/// when every handler, or its [fallback](Self::fallback), has succeeded; dead when none is owed and one is dead.
/// [Replay](crate::store::Administration::replay) runs the dead ones only.
///
/// Handlers of one event run one after the other, on one worker. Types are matched exactly, by
/// [aggregate type](DomainEvent::AGGREGATE_TYPE) and [event type](DomainEvent::EVENT_TYPE).
///
/// ```
/// use pillarbox::{Delivery, Handlers, ListenerError, Retry};
/// # use pillarbox::{DomainEvent, Json, MemoryStore, Outbox};
/// # #[derive(serde::Serialize, serde::Deserialize)]
/// # struct OrderPlaced { order_id: String }
/// # impl DomainEvent for OrderPlaced {
/// #     const EVENT_TYPE: &'static str = "OrderPlaced";
/// #     type Codec = Json;
/// # }
///
/// let handlers = Handlers::new()
///     .on("billing", |order: OrderPlaced| async move {
///         println!("invoice for {}", order.order_id);
///         Ok::<(), ListenerError>(())
///     })
///     .on_any("audit", |delivery: Delivery| async move {
///         println!("{} happened", delivery.event_type());
///         Ok::<(), ListenerError>(())
///     })
///     .retry_for("billing", Retry::exponential().max_attempts(5));
/// # async fn start(handlers: Handlers) -> Result<(), Box<dyn std::error::Error>> {
/// let outbox = Outbox::builder(MemoryStore::new()).handlers(handlers).start()?;
/// # Ok(())
/// # }
/// ```
#[derive(Default)]
#[must_use = "handlers do nothing until they are given to an outbox"]
pub struct Handlers {
    typed: Vec<(Kind, Entry)>,
    any: Vec<Entry>,
    fallbacks: HashMap<Kind, SharedFallback>,
    /// The first thing that is wrong.
    wrong: Option<HandlersError>,
    /// Policies by the id that they were given for.
    policies: Vec<(String, Arc<dyn RetryPolicy>)>,
}

/// One handler.
#[derive(Clone)]
pub(crate) struct Entry {
    pub(crate) id: Arc<str>,
    pub(crate) listener: SharedListener,
    pub(crate) retry: Option<Arc<dyn RetryPolicy>>,
}

impl Handlers {
    /// No handlers.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a closure that gets events of type `T`, decoded.
    pub fn on<T, F, Answer, E>(self, id: impl Into<String>, handler: F) -> Self
    where
        T: DomainEvent,
        F: Fn(T) -> Answer + Send + Sync + 'static,
        Answer: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<ListenerError>,
    {
        self.handler(id, move |event: T, _: Delivery| handler(event))
    }

    /// Adds a handler that gets events of type `T`, decoded, and the [`Delivery`]: a closure with two arguments, or a
    /// type.
    pub fn handler<T: DomainEvent>(mut self, id: impl Into<String>, handler: impl Handler<T>) -> Self {
        let retry = handler.retry_policy();
        let typed = Typed { handler, of: PhantomData::<fn() -> T> };
        let entry = self.entry(id.into(), Arc::new(typed), retry);
        self.typed.push((kind_of::<T>(), entry));
        self
    }

    /// Adds a listener that gets every event, whatever its type, as it is.
    pub fn on_any(mut self, id: impl Into<String>, listener: impl Listener) -> Self {
        let entry = self.entry(id.into(), Arc::new(listener), None);
        self.any.push(entry);
        self
    }

    /// Sets what is done with an event of type `T` when one of its handlers has failed for good: its retries are
    /// exhausted, or its error is not worth one. If the fallback succeeds the handler counts as done, otherwise as dead.
    ///
    /// There is one for each type, and it serves all handlers of its events. It is not run for a payload that cannot be
    /// decoded.
    pub fn fallback<T: DomainEvent>(mut self, fallback: impl Fallback<T>) -> Self {
        let kind = kind_of::<T>();
        let fallback = TypedFallback::shared(fallback);
        if self.fallbacks.insert(kind, fallback).is_some() {
            let (aggregate_type, event_type) = (kind.0.to_owned(), kind.1.to_owned());
            self.wrong.get_or_insert(HandlersError::SecondFallback { aggregate_type, event_type });
        }
        self
    }

    /// Gives the handler with this id a retry policy, in place of that of the outbox. One that the handler
    /// [brings along](Handler::retry_policy) wins.
    pub fn retry_for(mut self, id: impl Into<String>, policy: impl RetryPolicy) -> Self {
        self.policies.push((id.into(), Arc::new(policy)));
        self
    }

    fn entry(&mut self, id: String, listener: SharedListener, retry: Option<Arc<dyn RetryPolicy>>) -> Entry {
        if let Err(bad) = check_id(&id) {
            self.wrong.get_or_insert(bad);
        }
        Entry { id: id.into(), listener, retry }
    }

    /// The registry that routes to these handlers, or the first thing that is wrong with them.
    pub(crate) fn into_registry(mut self) -> Result<HandlerRegistry, HandlersError> {
        if let Some(wrong) = self.wrong {
            return Err(wrong);
        }
        let mut ids = BTreeSet::new();
        for entry in self.typed.iter().map(|(_, entry)| entry).chain(&self.any) {
            if !ids.insert(entry.id.clone()) {
                return Err(HandlersError::SameId { id: entry.id.to_string() });
            }
        }
        // The last one that was given to a handler counts, unless it has brought its own.
        for (id, policy) in std::mem::take(&mut self.policies).into_iter().rev() {
            let all = self.typed.iter_mut().map(|(_, entry)| entry).chain(&mut self.any);
            let Some(entry) = all.into_iter().find(|entry| *entry.id == *id) else {
                let known = ids.iter().map(|id| format!("`{id}`")).collect::<Vec<_>>().join(", ");
                return Err(HandlersError::NoSuchHandler { id, known });
            };
            entry.retry.get_or_insert(policy);
        }
        for entry in self.typed.iter().map(|(_, entry)| entry).chain(&self.any) {
            if let Some(error) = entry.retry.as_ref().and_then(|policy| policy.check().err()) {
                return Err(HandlersError::Retry { id: entry.id.to_string(), error });
            }
        }
        Ok(self.routed())
    }

    fn routed(self) -> HandlerRegistry {
        let mut by_kind: HashMap<Kind, Vec<Entry>> = HashMap::new();
        for kind in self.fallbacks.keys() {
            by_kind.entry(*kind).or_default();
        }
        for (kind, entry) in self.typed {
            by_kind.entry(kind).or_default().push(entry);
        }
        let mut typed: HashMap<&'static str, HashMap<&'static str, Arc<HandlerSet>>> = HashMap::new();
        for (kind, mut handlers) in by_kind {
            handlers.extend(self.any.iter().cloned());
            let set = HandlerSet { handlers, fallback: self.fallbacks.get(&kind).cloned() };
            typed.entry(kind.0).or_default().insert(kind.1, Arc::new(set));
        }
        HandlerRegistry { typed, any: Arc::new(HandlerSet { handlers: self.any, fallback: None }) }
    }
}

/// Refuses an id that cannot be stored or typed.
pub(crate) fn check_id(id: &str) -> Result<(), HandlersError> {
    let is_fit = |character: char| character.is_ascii_alphanumeric() || "._-".contains(character);
    if id.is_empty() || id.len() > 64 || !id.chars().all(is_fit) {
        return Err(HandlersError::BadId { id: id.to_owned() });
    }
    if progress::WORDS.contains(&id) {
        return Err(HandlersError::ReservedId { id: id.to_owned() });
    }
    Ok(())
}

impl std::fmt::Debug for Handlers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let ids: Vec<&str> =
            self.typed.iter().map(|(_, entry)| entry).chain(&self.any).map(|entry| &*entry.id).collect();
        f.debug_struct("Handlers").field("ids", &ids).finish_non_exhaustive()
    }
}

/// The handlers of one kind of event, in their order.
#[derive(Default)]
pub(crate) struct HandlerSet {
    pub(crate) handlers: Vec<Entry>,
    pub(crate) fallback: Option<SharedFallback>,
}

impl HandlerSet {
    pub(crate) fn ids(&self) -> impl Iterator<Item = &str> + Clone {
        self.handlers.iter().map(|entry| &*entry.id)
    }
}

/// Routes events to handlers.
pub(crate) struct HandlerRegistry {
    typed: HashMap<&'static str, HashMap<&'static str, Arc<HandlerSet>>>,
    any: Arc<HandlerSet>,
}

impl Registry for HandlerRegistry {
    fn route(&self, event: &Event) -> Option<Target> {
        let of_type = self.typed.get(event.aggregate_type()).and_then(|types| types.get(event.event_type()));
        let set = of_type.unwrap_or(&self.any);
        (!set.handlers.is_empty()).then(|| Target(Receiver::Handlers(set.clone())))
    }
}

/// A handler as a listener: it decodes first.
struct Typed<H, T> {
    handler: H,
    of: PhantomData<fn() -> T>,
}

impl<T: DomainEvent, H: Handler<T>> Listener for Typed<H, T> {
    async fn on_event(&self, delivery: Delivery) -> Result<(), ListenerError> {
        let event = delivery.decode::<T>()?;
        self.handler.handle(event, delivery).await
    }
}

/// A method of a shared value as a handler's closure:
///
/// ```
/// use std::sync::Arc;
/// use pillarbox::{Handlers, ListenerError, bound};
/// # use pillarbox::{DomainEvent, Json};
/// # #[derive(serde::Serialize, serde::Deserialize)]
/// # struct OrderPlaced;
/// # impl DomainEvent for OrderPlaced {
/// #     const EVENT_TYPE: &'static str = "OrderPlaced";
/// #     type Codec = Json;
/// # }
///
/// struct Shop;
///
/// impl Shop {
///     async fn bill(self: Arc<Self>, order: OrderPlaced) -> Result<(), ListenerError> {
///         Ok(())
///     }
///     async fn ship(self: Arc<Self>, order: OrderPlaced) -> Result<(), ListenerError> {
///         Ok(())
///     }
/// }
///
/// let shop = Arc::new(Shop);
/// let handlers = Handlers::new().on("bill", bound(&shop, Shop::bill)).on("ship", bound(&shop, Shop::ship));
/// ```
pub fn bound<S, T, Answer>(
    shared: &Arc<S>,
    method: impl Fn(Arc<S>, T) -> Answer + Send + Sync + 'static,
) -> impl Fn(T) -> Answer + Send + Sync + 'static
where
    S: Send + Sync + 'static,
{
    let shared = shared.clone();
    move |event| method(shared.clone(), event)
}
