//! What was written and what became of it, told and asserted.

use std::fmt::Debug;
use std::sync::PoisonError;

use super::TestOutbox;
use super::attempt::Attempt;
use super::listing::{attempt_line, event_line, listed, row_line, rows_listed};
use crate::event::kind_of;
use crate::store::{Status, StoredEvent};
use crate::{Delivery, DomainEvent, Event, EventType};

impl TestOutbox {
    /// All events that were committed, in the order of commits, deleted ones included. What was rolled back is not among
    /// them.
    ///
    /// ```
    /// # use pillarbox::testing::TestOutbox;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let outbox = TestOutbox::start(|outbox| outbox);
    /// let mut tx = outbox.begin().await?;
    /// outbox.write_json(&mut tx, "OrderPlaced", "{}").await?;
    /// outbox.write_json(&mut tx, "OrderPaid", "{}").await?;
    /// tx.commit().await?;
    ///
    /// let types: Vec<_> = outbox.events().iter().map(|event| event.event_type().to_owned()).collect();
    /// assert_eq!(types, ["OrderPlaced", "OrderPaid"]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn events(&self) -> Vec<Event> {
        let journal = self.store().database.journal.as_ref();
        journal.map_or_else(Vec::new, |events| events.lock().unwrap_or_else(PoisonError::into_inner).clone())
    }

    /// The committed events of one event type, whatever their aggregate type, in the order of commits.
    ///
    /// ```
    /// # use pillarbox::testing::TestOutbox;
    /// # use pillarbox::Event;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let outbox = TestOutbox::start(|outbox| outbox);
    /// # let mut tx = outbox.begin().await?;
    /// # outbox.write(&mut tx, Event::builder("OrderPlaced").key("order-17").json_text("{}")).await?;
    /// # tx.commit().await?;
    /// let placed = outbox.events_of("OrderPlaced");
    /// assert_eq!(placed[0].key(), Some("order-17"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn events_of(&self, event_type: impl EventType) -> Vec<Event> {
        self.events().into_iter().filter(|event| event.event_type() == event_type.name()).collect()
    }

    /// The committed events of type `T`, decoded, in the order of commits.
    ///
    /// ```
    /// # use pillarbox::testing::TestOutbox;
    /// # #[derive(Debug, PartialEq, serde::Serialize, serde::Deserialize, pillarbox::Event)]
    /// # #[event(type = "OrderPlaced")]
    /// # struct OrderPlaced { order_id: String }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let outbox = TestOutbox::start(|outbox| outbox);
    /// # let mut tx = outbox.begin().await?;
    /// # outbox.write(&mut tx, OrderPlaced { order_id: "order-17".into() }).await?;
    /// # tx.commit().await?;
    /// assert_eq!(outbox.written::<OrderPlaced>(), [OrderPlaced { order_id: "order-17".into() }]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Panics
    /// If one of them cannot be decoded.
    #[track_caller]
    pub fn written<T: DomainEvent>(&self) -> Vec<T> {
        self.decoded().into_iter().map(|(_, value)| value).collect()
    }

    /// Asserts that `expected` was written, and returns the first such event, of which key, headers and context can be
    /// looked at.
    ///
    /// ```
    /// # use pillarbox::testing::TestOutbox;
    /// # #[derive(Debug, PartialEq, serde::Serialize, serde::Deserialize, pillarbox::Event)]
    /// # #[event(type = "OrderPlaced", aggregate = "Order", id = self.order_id.clone())]
    /// # struct OrderPlaced { order_id: String }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let outbox = TestOutbox::start(|outbox| outbox);
    /// # let mut tx = outbox.begin().await?;
    /// # outbox.write(&mut tx, OrderPlaced { order_id: "order-17".into() }).await?;
    /// # tx.commit().await?;
    /// let event = outbox.assert_written(&OrderPlaced { order_id: "order-17".into() });
    /// assert_eq!(event.key(), Some("order-17"));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Panics
    /// If it was not written, with a list of what was; and if an event of its type cannot be decoded.
    #[track_caller]
    pub fn assert_written<T: DomainEvent + PartialEq + Debug>(&self, expected: &T) -> Event {
        match self.decoded::<T>().into_iter().find(|(_, value)| value == expected) {
            Some((event, _)) => event,
            None => panic!("this event was not written: {expected:?}\n{}", self.what_was_written()),
        }
    }

    /// Asserts that nothing was written.
    ///
    /// ```
    /// # use pillarbox::testing::TestOutbox;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let outbox = TestOutbox::start(|outbox| outbox);
    /// let mut tx = outbox.begin().await?;
    /// outbox.write_json(&mut tx, "OrderPlaced", "{}").await?;
    /// tx.rollback().await?;
    ///
    /// outbox.assert_nothing_written();
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Panics
    /// If something was, with a list of it.
    #[track_caller]
    pub fn assert_nothing_written(&self) {
        assert!(self.events().is_empty(), "nothing was to be written\n{}", self.what_was_written());
    }

    /// All calls of listeners, handlers, fallbacks and sinks, in the order in which they began; see [`Attempt`].
    pub fn attempts(&self) -> Vec<Attempt> {
        self.log.attempts()
    }

    /// All deliveries that succeeded, in the order in which they began: one for each handler of an event.
    ///
    /// ```
    /// # use pillarbox::testing::TestOutbox;
    /// # use pillarbox::{Delivery, ListenerError};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let outbox = TestOutbox::start(|outbox| {
    /// #     outbox.on("OrderPlaced", |_: Delivery| async { Ok::<(), ListenerError>(()) })
    /// # });
    /// # let mut tx = outbox.begin().await?;
    /// # let id = outbox.write_json(&mut tx, "OrderPlaced", "{}").await?;
    /// # tx.commit().await?;
    /// outbox.drain().await;
    ///
    /// let delivered = outbox.delivered();
    /// assert_eq!((delivered[0].id(), delivered[0].attempt()), (id.as_str(), 1));
    /// # Ok(())
    /// # }
    /// ```
    pub fn delivered(&self) -> Vec<Delivery> {
        let succeeded = |attempt: &Attempt| attempt.has_succeeded() && !attempt.is_fallback();
        self.attempts()
            .iter()
            .filter(|attempt| succeeded(attempt))
            .map(|attempt| attempt.delivery().clone())
            .collect()
    }

    /// The deliveries in which the handler with this id succeeded, in the order in which they began.
    ///
    /// ```
    /// # use pillarbox::testing::TestOutbox;
    /// # use pillarbox::{Delivery, Handlers, ListenerError};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let outbox = TestOutbox::start(|outbox| {
    /// #     outbox.handlers(Handlers::new().on_any("audit", |_: Delivery| async { Ok::<(), ListenerError>(()) }))
    /// # });
    /// # let mut tx = outbox.begin().await?;
    /// # outbox.write_json(&mut tx, "OrderPlaced", "{}").await?;
    /// # tx.commit().await?;
    /// outbox.drain().await;
    /// assert_eq!(outbox.delivered_to("audit").len(), 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn delivered_to(&self, handler: &str) -> Vec<Delivery> {
        self.delivered().into_iter().filter(|delivery| delivery.handler_id() == Some(handler)).collect()
    }

    /// The events that wait to be delivered, in the order of their numbers: `due_at` says for when, `last_error` and
    /// `reason` for what.
    ///
    /// ```
    /// # use pillarbox::testing::TestOutbox;
    /// # use pillarbox::{Delivery, ListenerError};
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let outbox = TestOutbox::start(|outbox| {
    ///     let minute = Duration::from_secs(60);
    ///     outbox.on("OrderPlaced", move |_: Delivery| async move {
    ///         Err(ListenerError::retry_after(minute, "no stamps"))
    ///     })
    /// });
    /// # let mut tx = outbox.begin().await?;
    /// # outbox.write_json(&mut tx, "OrderPlaced", "{}").await?;
    /// # tx.commit().await?;
    /// outbox.drain().await;
    ///
    /// let pending = outbox.pending();
    /// assert_eq!(pending[0].last_error.as_deref(), Some("no stamps"));
    /// assert_eq!(pending[0].due_at, outbox.now().saturating_add(Duration::from_secs(60)));
    /// # Ok(())
    /// # }
    /// ```
    pub fn pending(&self) -> Vec<StoredEvent> {
        self.rows(Status::is_pending)
    }

    /// The dead events, in the order of their numbers: `last_error` says why, `handlers` which of them.
    ///
    /// ```
    /// # use pillarbox::testing::TestOutbox;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// // Nobody listens.
    /// let outbox = TestOutbox::start(|outbox| outbox);
    /// # let mut tx = outbox.begin().await?;
    /// # let id = outbox.write_json(&mut tx, "OrderPlaced", "{}").await?;
    /// # tx.commit().await?;
    /// outbox.drain().await;
    ///
    /// assert_eq!(outbox.dead()[0].event_id, id);
    /// # Ok(())
    /// # }
    /// ```
    pub fn dead(&self) -> Vec<StoredEvent> {
        self.rows(|status| status == Status::Dead)
    }

    /// Asserts that an event is done: every listener, handler or sink that it was for has succeeded.
    ///
    /// ```
    /// # use pillarbox::testing::TestOutbox;
    /// # use pillarbox::{Delivery, ListenerError};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let outbox = TestOutbox::start(|outbox| {
    /// #     outbox.on("OrderPlaced", |_: Delivery| async { Ok::<(), ListenerError>(()) })
    /// # });
    /// # let mut tx = outbox.begin().await?;
    /// # let id = outbox.write_json(&mut tx, "OrderPlaced", "{}").await?;
    /// # tx.commit().await?;
    /// # outbox.drain().await;
    /// outbox.assert_delivered(&id);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Panics
    /// If it is not, with where it stands and what was tried.
    #[track_caller]
    pub fn assert_delivered(&self, event_id: &str) {
        let row = self.row(event_id);
        // Done events may be deleted.
        let is_done = row.as_ref().map_or_else(
            || self.delivered().iter().any(|delivery| delivery.id() == event_id),
            |row| row.status == Ok(Status::Done),
        );
        assert!(is_done, "the event `{event_id}` was not delivered\n{}", self.what_became_of(event_id));
    }

    /// Asserts that the handler with this id has succeeded with an event, and returns the delivery in which it did.
    ///
    /// ```
    /// # use pillarbox::testing::TestOutbox;
    /// # use pillarbox::{Delivery, Handlers, ListenerError};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let outbox = TestOutbox::start(|outbox| {
    /// #     outbox.handlers(Handlers::new().on_any("audit", |_: Delivery| async { Ok::<(), ListenerError>(()) }))
    /// # });
    /// # let mut tx = outbox.begin().await?;
    /// # let id = outbox.write_json(&mut tx, "OrderPlaced", "{}").await?;
    /// # tx.commit().await?;
    /// # outbox.drain().await;
    /// assert_eq!(outbox.assert_delivered_to(&id, "audit").attempt(), 1);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Panics
    /// If it has not, with where the event stands and what was tried.
    #[track_caller]
    pub fn assert_delivered_to(&self, event_id: &str, handler: &str) -> Delivery {
        let of_event = |delivery: &Delivery| delivery.id() == event_id;
        match self.delivered_to(handler).into_iter().find(of_event) {
            Some(delivery) => delivery,
            None => panic!(
                "the event `{event_id}` was not delivered to the handler `{handler}`\n{}",
                self.what_became_of(event_id)
            ),
        }
    }

    /// Asserts that an event is dead, and returns its row, which says why.
    ///
    /// ```
    /// # use pillarbox::testing::TestOutbox;
    /// # use pillarbox::{Delivery, ListenerError};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let outbox = TestOutbox::start(|outbox| {
    /// #     outbox.on("OrderPlaced", |_: Delivery| async { Err(ListenerError::permanent("no such customer")) })
    /// # });
    /// # let mut tx = outbox.begin().await?;
    /// # let id = outbox.write_json(&mut tx, "OrderPlaced", "{}").await?;
    /// # tx.commit().await?;
    /// # outbox.drain().await;
    /// let dead = outbox.assert_dead(&id);
    /// assert_eq!(dead.last_error.as_deref(), Some("no such customer"));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Panics
    /// If it is not, with where it stands and what was tried.
    #[track_caller]
    pub fn assert_dead(&self, event_id: &str) -> StoredEvent {
        match self.row(event_id).filter(|row| row.status == Ok(Status::Dead)) {
            Some(row) => row,
            None => panic!("the event `{event_id}` is not dead\n{}", self.what_became_of(event_id)),
        }
    }

    /// Asserts that everything that was written is done: nothing is pending, and nothing is dead.
    ///
    /// ```
    /// # use pillarbox::testing::TestOutbox;
    /// # use pillarbox::{Delivery, ListenerError};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// # let outbox = TestOutbox::start(|outbox| outbox);
    /// outbox.drain().await;
    /// outbox.assert_all_delivered();
    /// # }
    /// ```
    ///
    /// # Panics
    /// If something is pending or dead, with a list of it.
    #[track_caller]
    pub fn assert_all_delivered(&self) {
        let rows = self.rows(|status| status != Status::Done);
        assert!(rows.is_empty(), "not everything was delivered:\n{}", rows_listed(&rows, self.now()));
    }

    /// The committed events of type `T`, each with what it was written from.
    #[track_caller]
    fn decoded<T: DomainEvent>(&self) -> Vec<(Event, T)> {
        let is_of_type = |event: &Event| (event.aggregate_type(), event.event_type()) == kind_of::<T>();
        let mut decoded = Vec::new();
        for event in self.events().into_iter().filter(is_of_type) {
            match event.decode() {
                Ok(value) => decoded.push((event, value)),
                Err(error) => panic!("an event cannot be decoded: {error}\n{}", event_line(&event)),
            }
        }
        decoded
    }

    fn rows(&self, is_wanted: impl Fn(Status) -> bool) -> Vec<StoredEvent> {
        let is_wanted = |row: &StoredEvent| row.status.is_ok_and(&is_wanted);
        self.store().rows().into_iter().filter(is_wanted).collect()
    }

    fn row(&self, event_id: &str) -> Option<StoredEvent> {
        self.store().rows().into_iter().find(|row| row.event_id == event_id)
    }

    fn what_was_written(&self) -> String {
        let events = self.events();
        if events.is_empty() {
            return "nothing was written; was the transaction committed?".to_owned();
        }
        format!("what was written:\n{}", listed(events.iter().map(event_line)))
    }

    fn what_became_of(&self, event_id: &str) -> String {
        let Some(row) = self.row(event_id) else {
            let is_it = |event: &Event| event.id() == event_id;
            let what =
                if self.events().iter().any(is_it) { "it was deleted" } else { "there is no such event" };
            return format!("{what}; {}", self.what_was_written());
        };
        let tried = self.attempts().into_iter().filter(|attempt| attempt.id() == event_id);
        let tried = listed(tried.map(|attempt| attempt_line(&attempt)));
        let tried = if tried.is_empty() {
            "nothing was tried".to_owned()
        } else {
            format!("what was tried:\n{tried}")
        };
        format!("where it stands: {}\n{tried}", row_line(&row, self.now()))
    }
}
