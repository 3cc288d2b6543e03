//! Named sinks behind routes, each with troubles of its own.

use std::sync::atomic::Ordering;
use std::time::Duration;

use pillarbox::{BoxFuture, Clock, Delivery, Route, Routing, Run, Sink, SinkError};

use super::application::Kind;
use super::brokers::Absence;
use super::handlers::{drawn, handlers_of};
use super::receivers::Receivers;

const KAFKA: &str = "kafka";
const SEARCH: &str = "search";
const AUDIT: &str = "audit";
/// All sinks.
pub(super) const SINKS: [&str; 3] = [KAFKA, SEARCH, AUDIT];

/// By so much a delivery may end before its time as it is measured here: it is counted from before the outcomes of others
/// were handed in.
const SLACK: Duration = Duration::from_millis(100);

/// The route of events of a kind, and the sinks that it leads to.
pub(super) fn route_of(kind: Kind) -> (&'static str, &'static [&'static str]) {
    match kind {
        Kind::Shipped => ("shipments", &[KAFKA, SEARCH, AUDIT]),
        Kind::Refunded => ("refunds", &[KAFKA, SEARCH]),
        Kind::Invoiced => ("invoices", &[SEARCH]),
        _ => ("rest", &[AUDIT]),
    }
}

/// Who is tracked with events of a kind: sinks, or handlers.
pub(super) fn receivers_of(kind: Kind) -> &'static [&'static str] {
    match kind {
        Kind::Shipped | Kind::Refunded | Kind::Invoiced => route_of(kind).1,
        // All others go to the handler, or to the sink, of one name.
        kind => handlers_of(kind),
    }
}

/// The names of all routes.
pub(super) const ROUTES: [&str; 4] = ["shipments", "refunds", "invoices", "rest"];

/// How the sinks of a process are reached.
pub(super) fn routing(receivers: &Receivers) -> Routing {
    let route = |kind: Kind, event_type: Option<&str>| {
        let (name, sinks) = route_of(kind);
        let route = Route::new(name);
        let route = if let Some(event_type) = event_type { route.event_type(event_type) } else { route };
        sinks.iter().fold(route, |route, sink| route.to(*sink))
    };
    let routes = [Kind::Shipped, Kind::Refunded, Kind::Invoiced].map(|kind| route(kind, Some(kind.name())));
    let routes = routes.into_iter().chain([route(Kind::Fine, None)]).collect();
    let named = SINKS.into_iter().try_fold(Routing::new(), |routing, name| {
        routing.sink(name, NamedSink { receivers: receivers.clone(), name })
    });
    named.and_then(|routing| routing.routes(routes)).expect("the routes are valid")
}

/// How a sink takes an event.
#[derive(Clone, Copy)]
enum Manner {
    Fine,
    Slow,
    /// Rejects it a few times.
    Picky,
    /// Rejects it for ever.
    Broken,
    /// Rejects it for good at once; half of them mend their ways when it is replayed.
    Refusing,
    /// Is down for this event a few times.
    Unavailable,
    /// The answer is lost a few times; half of the events have arrived.
    Unanswered,
    /// Leaves it for a later run a few times.
    Unsent,
    Panicking,
    Hanging,
}

impl Manner {
    fn of(draw: u64) -> Self {
        match draw % 100 {
            0..70 => Self::Fine,
            70..72 => Self::Slow,
            72..80 => Self::Picky,
            80..82 => Self::Broken,
            82..86 => Self::Refusing,
            86..89 => Self::Unavailable,
            89..93 => Self::Unanswered,
            93..96 => Self::Unsent,
            96..98 => Self::Panicking,
            98 => Self::Hanging,
            _ => Self::Fine,
        }
    }
}

/// A sink of one process.
struct NamedSink {
    receivers: Receivers,
    name: &'static str,
}

impl Sink for NamedSink {
    fn publish<'a>(&'a self, run: &'a Run) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let mut parcels = Vec::with_capacity(run.deliveries().len());
            for delivery in run.deliveries() {
                parcels.push(self.begin(delivery).await);
            }
            if run.deliveries().iter().any(|delivery| Kind::of(delivery.id()) == Kind::Poison) {
                self.receivers.process.kill("death by poison");
                return std::future::pending().await;
            }
            if self.receivers.rng.chance(300) {
                tokio::time::sleep(self.receivers.rng.millis(0, 20)).await;
            }
            match self.receivers.process.world.absence_of(self.name) {
                Some(absence) => self.turn_away(run, parcels, absence).await,
                None => self.take_in(run, parcels).await,
            }
        })
    }
}

impl NamedSink {
    /// Begins a delivery: no sink that has the event gets it again.
    async fn begin(&self, delivery: &Delivery) -> Parcel<'_> {
        let (world, id) = (&self.receivers.process.world, delivery.id());
        let (process, attempt) = (self.receivers.process.number, delivery.attempt());
        world.note(format_args!("{process} sends {id} to {} attempt {attempt}", self.name));
        if delivery.handler_id() != Some(self.name) {
            world.violation(format!("{id} is sent to {} for {:?}", self.name, delivery.handler_id()));
        }
        self.receivers.check_row(id).await;
        let number = world.delivery_begins(process, id, Some(self.name));
        let runs = world.turn_begins(process, id, self.name, false);
        world.check_route(process, id);
        let most = world.options.max_attempts;
        if attempt > most {
            world.violation(format!("{id}: {} is in its attempt {attempt}", self.name));
        }
        let draw = drawn(id, self.name);
        Parcel {
            sink: self,
            id: id.to_owned(),
            number,
            draw,
            runs,
            is_last: attempt >= most,
            since: world.clock.now(),
            is_over: false,
        }
    }

    /// The broker is down: nothing arrives.
    async fn turn_away(&self, run: &Run, parcels: Vec<Parcel<'_>>, absence: Absence) {
        let Receivers { process, rng, .. } = &self.receivers;
        if absence == Absence::Silent {
            return std::future::pending().await;
        }
        for (index, parcel) in parcels.into_iter().enumerate() {
            process.world.note_absence(&parcel.id, self.name);
            parcel.end();
            let error = SinkError::unavailable("the broker is down");
            let error = match absence {
                Absence::Asks => error.retry_after(rng.millis(100, 3_000)),
                _ => error,
            };
            run.answer(index, Err(error));
        }
    }

    /// The broker is there: each event is answered as it behaves with it.
    async fn take_in(&self, run: &Run, parcels: Vec<Parcel<'_>>) {
        let Receivers { process, rng, time_limit } = &self.receivers;
        let is_alone = parcels.len() == 1;
        let mut parcels = parcels.into_iter().enumerate();
        while let Some((index, mut parcel)) = parcels.next() {
            let is_bad = parcel.runs <= (parcel.draw >> 32) % 3;
            let answer = match Manner::of(parcel.draw) {
                Manner::Slow => {
                    tokio::time::sleep(time_limit.mul_f64(rng.between(1, 5) as f64 / 10.0)).await;
                    parcel.arrive()
                }
                Manner::Picky if is_bad => parcel.reject(),
                Manner::Broken => parcel.reject(),
                Manner::Refusing if parcel.runs == 0 || parcel.draw >> 63 == 0 => {
                    parcel.is_last = true;
                    parcel.reject().map_err(SinkError::for_good)
                }
                Manner::Unavailable if is_bad => {
                    parcel.end();
                    Err(SinkError::unavailable("its stream is full"))
                }
                Manner::Unanswered if is_bad => {
                    process.world.cover("answers of sinks lost", 1);
                    parcel.end();
                    Err(SinkError::unknown("the broker did not answer"))
                }
                Manner::Unsent if is_bad => {
                    parcel.end();
                    Err(SinkError::not_sent("another of its key failed"))
                }
                Manner::Panicking if is_bad => {
                    // Over an event alone it counts as a failure of that event.
                    if is_alone {
                        drop(parcel.reject())
                    } else {
                        parcel.end()
                    }
                    parcels.for_each(|(_, parcel)| parcel.end());
                    std::panic::resume_unwind(Box::new("the sink is out of its mind"))
                }
                Manner::Hanging if is_bad => std::future::pending().await,
                _ => parcel.arrive(),
            };
            run.answer(index, answer);
        }
    }
}

/// An event on its way to a sink.
struct Parcel<'a> {
    sink: &'a NamedSink,
    id: String,
    /// Its number as a delivery, where partitions are owned.
    number: Option<u64>,
    /// What decides how the sink takes it.
    draw: u64,
    /// How often it was sent to this sink before.
    runs: u64,
    /// Whether it is the last time if it is rejected.
    is_last: bool,
    since: Duration,
    is_over: bool,
}

impl Parcel<'_> {
    /// The broker has acknowledged it.
    fn arrive(mut self) -> Result<(), SinkError> {
        self.is_over = true;
        let process = &self.sink.receivers.process;
        process.world.turn_succeeds(process.number, &self.id, self.sink.name, false);
        Ok(())
    }

    /// The broker does not want it.
    fn reject(mut self) -> Result<(), SinkError> {
        self.is_over = true;
        let process = &self.sink.receivers.process;
        process.world.turn_fails(process.number, &self.id, self.sink.name, false, self.is_last);
        Err(SinkError::rejected("the broker does not want it"))
    }

    /// It ends with nothing said about it.
    fn end(mut self) {
        self.is_over = true;
    }
}

impl Drop for Parcel<'_> {
    /// Dropped before its end: by death, by the time limit, by the drain timeout, or with the lease.
    fn drop(&mut self) {
        let Receivers { process, time_limit, .. } = &self.sink.receivers;
        let world = &process.world;
        if let Some(number) = self.number {
            world.tenancy().ended(number);
        }
        if self.is_over || !process.is_alive() {
            return;
        }
        let is_late = world.clock.now().saturating_sub(self.since) + SLACK >= *time_limit;
        let is_closing = process.is_closing.load(Ordering::Relaxed);
        world.note(format_args!("{} drops {} on its way to {}", process.number, self.id, self.sink.name));
        if is_late {
            world.cover("time-outs of sinks", 1);
        } else if is_closing {
            world.cover("sinks cut off by the drain timeout", 1);
        } else if world.options.has_faults {
            world.cover("sinks cut off when the lease ended", 1);
        } else {
            world.violation(format!("{} of {} was cut off without a reason", self.sink.name, self.id));
        }
    }
}
