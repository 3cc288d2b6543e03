//! The sink and receivers of its own, on real sockets.

#![expect(clippy::unwrap_used, reason = "tests panic when something is wrong")]

mod answers;
mod checks;
mod faults;
mod order;
mod private;
mod receiver;
mod signatures;
mod tls;

use std::sync::Arc;

use pillarbox::{Event, EventBuilder, Sink, SinkError};

/// What every sink is held to.
mod suite {
    use crate::receiver::Receiver;

    pillarbox_testkit::sink_tests!(Receiver::accepting().await);
}

fn order_placed(id: &str) -> EventBuilder {
    Event::builder("OrderPlaced").id(id).json_text(r#"{"total": 4200}"#)
}

fn event(id: &str) -> Event {
    order_placed(id).build().unwrap()
}

fn of_key(id: &str, key: &str) -> Event {
    order_placed(id).key(key).build().unwrap()
}

/// Publishes one run, and gives the answers in the order of the events.
async fn publish(sink: &Arc<impl Sink>, events: &[Event]) -> Vec<Result<(), SinkError>> {
    let sink: Arc<dyn Sink> = sink.clone();
    pillarbox_testkit::sinks::publish(&sink, events).await
}

/// Publishes one event that must fail.
async fn error(sink: &Arc<impl Sink>, event: Event) -> SinkError {
    publish(sink, &[event]).await.remove(0).unwrap_err()
}
