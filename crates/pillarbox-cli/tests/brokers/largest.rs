//! The largest event that there can be.

use pillarbox::MAX_PAYLOAD;

use crate::arrivals::SOURCE;
use crate::broker::Arrival;
use crate::database::{Database, Kind};
use crate::everywhere::Everywhere;
use crate::relay::Relay;

const SINKS: [&str; 5] = ["kafka", "nats", "rabbitmq", "redis", "http"];

/// V2, K1: the largest legal event arrives at every sink, or is dead with a reason that names the broker's limit.
pub(crate) async fn largest_event_arrives_or_the_limit_is_named(brokers: &Everywhere) {
    for mode in ["binary", "structured"] {
        let database = Database::new(Kind::Postgres);
        for sink in SINKS {
            database.sql(&format!(
                "INSERT INTO outbox_event (event_id, event_type, event_key, payload) \
                 SELECT '{mode}-{sink}', '{sink}', '{sink}', ('\"' || repeat('x', {}) || '\"')::json;",
                MAX_PAYLOAD - 2
            ));
        }
        let relay = Relay::start(&format!(
            "[outbox.store]\nurl = '{}'\n[messages]\nsource = '{SOURCE}'\nmode = '{mode}'\n{}",
            database.url,
            brokers.sinks()
        ));

        relay
            .until("not every event has an end", |state| {
                let count = |name: &str| state[name].as_u64().unwrap_or_default();
                count("delivered") + count("dead") == SINKS.len() as u64
            })
            .await;

        for sink in SINKS {
            let id = format!("{mode}-{sink}");
            let select = |column: &str| {
                database.sql(&format!("SELECT {column} FROM outbox_event WHERE event_id = '{id}';"))
            };
            let length = length_of(brokers, sink, &id);
            match select("status").as_str() {
                "1" => assert!(length.is_some_and(|length| length >= MAX_PAYLOAD), "{id}: {length:?}"),
                status => {
                    let error = select("last_error");
                    assert_eq!((status, length), ("3", None), "{id}: {error}");
                    assert!(error.contains("limit"), "{id}: {error}");
                    let limit = if sink == "kafka" { "message" } else { "max_payload" };
                    assert!(error.contains(limit), "{id}: {error}");
                    eprintln!("{id}: {error}");
                }
            }
        }
        assert_eq!(relay.stop().code, Some(0));
    }
}

/// How long the body of an event was when it arrived.
fn length_of(brokers: &Everywhere, sink: &str, id: &str) -> Option<usize> {
    let found = |arrivals: Vec<Arrival>| {
        arrivals.iter().find(|arrival| arrival.id == id).map(|arrival| arrival.body.len())
    };
    match sink {
        "kafka" => found(brokers.kafka.read()),
        "nats" => found(brokers.nats.read()),
        "rabbitmq" => found(brokers.rabbitmq.read()),
        "redis" => found(brokers.redis.read()),
        _ => brokers.receiver.length_of(id),
    }
}
