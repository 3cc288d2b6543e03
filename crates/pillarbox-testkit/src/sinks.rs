//! What every sink is held to: one case per promise, on a real server.
//!
//! A test binary implements [`SinkStage`] and [`Fresh`](crate::servers::Fresh), and lists the cases with
//! [`sink_trials!`](crate::sink_trials); where no server of others is needed, with
//! [`sink_tests!`](crate::sink_tests).

#![expect(clippy::unwrap_used, reason = "cases are tests")]

mod addresses;
mod answers;
mod contents;
mod faults;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

pub use addresses::*;
pub use answers::*;
pub use contents::*;
pub use faults::*;
use pillarbox::{Delivery, Event, EventBuilder, Run, Sink, SinkError, Source, Template, Timestamp};
use pillarbox_message::Messages;

/// Long enough for any answer, even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// The source that the messages of the suite name.
pub const SOURCE: &str = "/pillarbox/suite";

/// An empty destination of its own, sinks to it, and a look at what has arrived there by another client than theirs.
pub trait SinkStage {
    /// A sink to the destination that makes its messages by `messages`. It connects to `server` instead of the real one
    /// if that is given: a proxy, or a port where nobody listens. Making it must not need the server to be there.
    fn sink(&self, messages: Messages, server: Option<SocketAddr>) -> impl Future<Output = Arc<dyn Sink>>;

    /// Where the server listens.
    fn server(&self) -> SocketAddr;

    /// From where a proxy must lead to the server: a port of its own for servers that tell their clients where to
    /// connect, and port 0 for all others.
    fn proxied(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], 0))
    }

    /// What has arrived at the sink's own address, in the order of arrival.
    fn arrived(&self) -> impl Future<Output = Vec<Arrived>>;

    /// Another address of the same destination, which a route can name.
    fn elsewhere(&self) -> String;

    /// What has arrived there.
    fn arrived_elsewhere(&self) -> impl Future<Output = Vec<Arrived>>;
}

/// A message that has arrived.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Arrived {
    /// The header `event-id`.
    pub event_id: String,
    /// The key, where the broker has a place of its own for it.
    pub key: Option<String>,
    /// What the body is.
    pub content_type: String,
    /// Attributes of CloudEvents, without the prefix of the transport, decoded.
    pub attributes: BTreeMap<String, String>,
    /// All other headers, but for those that the broker or the transport adds.
    pub headers: BTreeMap<String, String>,
    /// The body.
    pub body: Vec<u8>,
}

/// Adds every case of this suite to a [`Suite`](crate::servers::Suite): `sink_trials!(suite, server, Stage)`.
#[macro_export]
macro_rules! sink_trials {
    ($suite:expr, $server:expr, $stage:ty) => {{
        use $crate::sinks;
        $crate::sink_list! { trials_of ($suite, $server, $stage) }
    }};
}

/// Makes every case a `#[tokio::test]` of its own name, where no server of others is needed.
///
/// The argument is evaluated anew for each of them, inside the test, and may await.
#[macro_export]
macro_rules! sink_tests {
    ($stage:expr) => {
        $crate::sink_list! { sink_tests_of ($stage) }
    };
}

/// Hands the list of all cases to the macro `$then`, behind `$arguments`.
#[doc(hidden)]
#[macro_export]
macro_rules! sink_list {
    ($then:ident $arguments:tt) => {
        $crate::$then! { $arguments;
            sinks {
                every_event_of_a_run_arrives_once
                events_of_a_key_arrive_in_order
                runs_at_the_same_time_are_answered_each
                dropped_run_leaves_the_sink_usable
                binary_message_carries_everything
                structured_message_carries_everything
                bytes_arrive_as_they_are
                context_is_sent_only_when_asked
                trace_context_arrives
                key_is_where_the_broker_has_it
                largest_event_arrives_or_is_rejected_for_good
                address_of_a_route_wins
                event_that_cannot_fill_its_address_is_rejected_for_good
                absent_server_is_unavailable
                lost_answers_are_not_success
                cut_connection_is_made_anew
            }
        }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! sink_tests_of {
    (($stage:expr); $module:ident { $($case:ident)* }) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                $crate::sinks::$case(&$stage).await;
            }
        )*
    };
}

/// Messages in binary mode, without context.
fn binary() -> Messages {
    Messages::from_source(SOURCE).unwrap()
}

fn order_placed(id: &str) -> EventBuilder {
    Event::builder("OrderPlaced").id(id).aggregate("Order", "order-17").json_text(r#"{"total": 4200}"#)
}

/// Events of ten keys in turn.
fn orders(prefix: &str, count: usize) -> Vec<Event> {
    let order = |number: usize| {
        let event = Event::builder("OrderPlaced").id(format!("{prefix}-{number:05}"));
        event
            .aggregate("Order", format!("order-{}", number % 10))
            .json_text(format!("[{number}]"))
            .build()
            .unwrap()
    };
    (0..count).map(order).collect()
}

fn run_of(events: &[Event]) -> Vec<Delivery> {
    let delivery = |event: &Event| Delivery::new(event.clone(), 1, Timestamp::from_micros(0), Source::Cold);
    events.iter().map(delivery).collect()
}

type Answered = Vec<Result<(), SinkError>>;

/// Publishes one run, and gives the answers in the order of the events. What has none when the sink is through, or after
/// a long time, is [unknown](SinkError::unknown), as the engine has it.
pub async fn publish(sink: &Arc<dyn Sink>, events: &[Event]) -> Answered {
    publish_to(sink, events, Vec::new(), PATIENCE).await
}

async fn publish_to(
    sink: &Arc<dyn Sink>,
    events: &[Event],
    addresses: Vec<Option<Arc<Template>>>,
    within: Duration,
) -> Answered {
    let (run, mut answers) = Run::new(run_of(events));
    let run = run.with_addresses(addresses);
    let mut answered: Vec<Option<Result<(), SinkError>>> = vec![None; events.len()];
    let _ = tokio::time::timeout(within, sink.publish(&run)).await;
    while let Some((index, answer)) = answers.waiting() {
        answered[index] = Some(answer);
    }
    let silence = || Err(SinkError::unknown("no answer"));
    answered.into_iter().map(|answer| answer.unwrap_or_else(silence)).collect()
}

/// Publishes until every event is acknowledged, as the engine would: what is not comes again.
async fn publish_until_done(sink: &Arc<dyn Sink>, events: &[Event]) {
    let mut left = events.to_vec();
    let end = tokio::time::Instant::now() + 2 * PATIENCE;
    while !left.is_empty() {
        assert!(tokio::time::Instant::now() < end, "{} events are not acknowledged", left.len());
        let answers = publish_to(sink, &left, Vec::new(), Duration::from_secs(5)).await;
        let mut answers = answers.into_iter();
        left.retain(|_| answers.next().is_some_and(|answer| answer.is_err()));
        if !left.is_empty() {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

fn ids(arrived: &[Arrived]) -> Vec<&str> {
    arrived.iter().map(|message| message.event_id.as_str()).collect()
}

fn sorted<T: Ord>(mut items: Vec<T>) -> Vec<T> {
    items.sort();
    items
}

/// The one message that has arrived.
async fn only(stage: &impl SinkStage) -> Arrived {
    let mut arrived = stage.arrived().await;
    assert_eq!(arrived.len(), 1, "{:?}", ids(&arrived));
    arrived.remove(0)
}

fn assert_all_acknowledged(answers: &Answered) {
    let errors: Vec<_> = answers.iter().filter_map(|answer| answer.as_ref().err()).collect();
    assert!(errors.is_empty(), "{} of {} events: {}", errors.len(), answers.len(), errors[0]);
}
