//! `handlers`: one typed handler, which decodes the payload, against a plain listener that does not, and against one that
//! does; and three against one.

use std::convert::Infallible;
use std::time::{Duration, Instant};

use anyhow::Result;
use pillarbox::{Delivery, DomainEvent, Handlers, Json, OutboxBuilder, Store};
use serde::{Deserialize, Serialize};

use super::drain::{EVENTS, EVENTS_QUICK, takes_batches};
use crate::database::{AGGREGATE, Address, Database, EVENT, Fill};
use crate::measure::{Deliveries, Scale, typical_round};
use crate::report::{Goal, Line, grouped};
use crate::statements;

/// More than elsewhere: the difference is smaller than that from one round to the next.
const ROUNDS: usize = 9;

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

const RECEIVERS: [Receiver; 4] =
    [Receiver::Listener, Receiver::DecodingListener, Receiver::Handlers(1), Receiver::Handlers(3)];

pub(crate) async fn measure<D: Database>(place: &D, scale: Scale) -> Result<Vec<Line>> {
    let events = scale.pick(EVENTS, EVENTS_QUICK);
    eprintln!("handlers: {} pending, {ROUNDS} rounds", grouped(events as u64));
    let address = place.create("handlers").await?;
    let mut rates: [Vec<f64>; RECEIVERS.len()] = Default::default();
    for round in 0..ROUNDS {
        for turn in 0..RECEIVERS.len() {
            let receiver = (turn + round) % RECEIVERS.len();
            let took = drain::<D>(&address, RECEIVERS[receiver], events).await?;
            rates[receiver].push(events as f64 / took.as_secs_f64());
        }
    }
    // Apart from the others: being counted slows statements down.
    let mut counted = [0.0; RECEIVERS.len()];
    for (receiver, counted) in RECEIVERS.into_iter().zip(&mut counted) {
        let statements = statements::counted(drain::<D>(&address, receiver, events)).await?;
        *counted = statements as f64 * 1_000.0 / events as f64;
    }

    let [listener, decoding, one, three] = &rates;
    let line = |case: &str, ours: &[f64], raw: &[f64]| {
        let (ours, raw) = typical_round(ours, raw);
        Line::new(D::NAME, case, ours, "events/s", raw)
    };
    let [_, _, of_one, of_three] = counted;
    let statements = Line::new(D::NAME, "handlers/statements", of_three, "per 1,000 events", of_one);
    Ok(vec![
        line("handlers/one-against-listener", one, listener).goal(Goal::AtLeast(0.95)),
        line("handlers/one-against-decoding", one, decoding).goal(Goal::AtLeast(0.95)),
        line("handlers/three-against-one", three, one),
        statements.goal(Goal::AtMost(1.1)),
    ])
}

/// How long it takes until all of them have received `events`.
async fn drain<D: Database>(address: &Address, receiver: Receiver, events: usize) -> Result<Duration> {
    D::fill(address, events, Fill::Pending).await?;
    let store = D::store(address).await?;
    let deliveries = Deliveries::default();
    let begun = Instant::now();
    let outbox = receiving(takes_batches(store.clone(), &deliveries), receiver).start()?;
    deliveries.reach(events).await?;
    let took = begun.elapsed();
    outbox.close().await;
    D::close(&store).await;
    Ok(took)
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
