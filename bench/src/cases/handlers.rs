//! `handlers`: one typed handler, which decodes the payload, against a plain listener that does not, and against one that
//! does; and three against one.

use std::convert::Infallible;

use anyhow::Result;
use pillarbox::{Delivery, DomainEvent, Handlers, Json, OutboxBuilder, Store};
use serde::{Deserialize, Serialize};

use super::drain::{EVENTS_QUICK, rate_by_us, takes_batches};
use crate::database::{AGGREGATE, Database, EVENT, Fill};
use crate::measure::{Scale, typical_round};
use crate::report::{Goal, Line, grouped};
use crate::statements;

/// More than elsewhere, and shorter: the difference is smaller than that from one round to the next.
const ROUNDS: usize = 24;
const EVENTS: usize = 40_000;
/// What is delivered before the time is taken: connecting, preparing statements, filling the queue.
const WARM_UP: usize = EVENTS_QUICK / 10;

/// The payload that is filled in.
#[derive(Serialize, Deserialize)]
struct OrderPlaced {
    order: String,
    customer: String,
    total: u64,
    currency: String,
    items: Vec<Item>,
}

#[derive(Serialize, Deserialize)]
struct Item {
    sku: String,
    count: u32,
}

impl DomainEvent for OrderPlaced {
    const EVENT_TYPE: &'static str = EVENT;
    const AGGREGATE_TYPE: &'static str = AGGREGATE;
    type Codec = Json;
}

/// Who receives the events.
#[derive(Clone, Copy)]
enum Receiver {
    Listener,
    DecodingListener,
    Handlers(usize),
}

/// Such that who is compared is next to each other.
const RECEIVERS: [Receiver; 4] =
    [Receiver::Listener, Receiver::Handlers(1), Receiver::DecodingListener, Receiver::Handlers(3)];

pub(crate) async fn measure<D: Database>(place: &D, scale: Scale) -> Result<Vec<Line>> {
    let events = scale.pick(EVENTS, EVENTS_QUICK);
    eprintln!("handlers: {} pending, {ROUNDS} rounds", grouped(events as u64));
    let mut rates: [Vec<f64>; RECEIVERS.len()] = Default::default();
    for round in 0..ROUNDS {
        for turn in 0..RECEIVERS.len() {
            // There and back, so that nobody always comes after the same.
            let turn = if round % 2 == 0 { turn } else { RECEIVERS.len() - 1 - turn };
            let receiver = (turn + round / 2) % RECEIVERS.len();
            rates[receiver].push(drain(place, RECEIVERS[receiver], events).await?);
        }
    }
    // Apart from the others: being counted slows statements down.
    let mut counted = [0.0; RECEIVERS.len()];
    for (receiver, counted) in RECEIVERS.into_iter().zip(&mut counted) {
        let statements = statements::counted(drain(place, receiver, events)).await?;
        *counted = statements as f64 * 1_000.0 / events as f64;
    }

    let [listener, one, decoding, three] = &rates;
    let line = |case: &str, ours: &[f64], raw: &[f64]| {
        let (ours, raw) = typical_round(ours, raw);
        Line::new(D::NAME, case, ours, "events/s", raw)
    };
    let [_, of_one, _, of_three] = counted;
    let statements = Line::new(D::NAME, "handlers/statements", of_three, "per 1,000 events", of_one);
    Ok(vec![
        line("handlers/one-against-listener", one, listener).goal(Goal::AtLeast(0.95)),
        line("handlers/one-against-decoding", one, decoding).goal(Goal::AtLeast(0.95)),
        line("handlers/three-against-one", three, one),
        statements.goal(Goal::AtMost(1.1)),
    ])
}

/// How many of `events` somebody receives in a second. The table has no others: with those of earlier rounds each would
/// be slower than the one before.
async fn drain<D: Database>(place: &D, receiver: Receiver, events: usize) -> Result<f64> {
    let address = place.create("handlers").await?;
    D::fill(&address, events, Fill::Pending).await?;
    let receiving = |store, deliveries: &_| receiving(takes_batches(store, deliveries), receiver);
    rate_by_us::<D>(&address, events, WARM_UP, receiving).await
}

fn receiving<S: Store>(outbox: OutboxBuilder<S>, receiver: Receiver) -> OutboxBuilder<S> {
    match receiver {
        Receiver::Listener => {
            outbox.on_aggregate(AGGREGATE, EVENT, |_: Delivery| async { Ok::<_, Infallible>(()) })
        }
        Receiver::DecodingListener => {
            outbox.on_aggregate(AGGREGATE, EVENT, |delivery: Delivery| async move {
                delivery.decode::<OrderPlaced>().map(drop)
            })
        }
        Receiver::Handlers(count) => outbox.handlers((0..count).fold(Handlers::new(), |handlers, number| {
            handlers.on(format!("handler-{number}"), |_: OrderPlaced| async { Ok::<_, Infallible>(()) })
        })),
    }
}
