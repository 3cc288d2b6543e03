//! Which sinks an event goes to, by rules that can be changed while the outbox runs.

mod pattern;
mod route;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

pub use pattern::Pattern;
pub use route::Route;

use crate::config::HOLD_FOR;
use crate::destination::{Destination, Destinations, Health, Leg, SinkSet};
use crate::handler::check_id;
use crate::mutant::mutant;
use crate::registry::{Receiver, Registry, Target};
use crate::spelling::nearest;
use crate::{Event, Sink};

/// Sends events to named sinks, by routes in order: the first that takes an event decides.
///
/// An event may go to several sinks. Which of them have it is stored with the event, under their names: one that is down
/// never has another get the event twice, and delays it only where order is on, within the keys that wait. So a name is
/// given once and kept.
///
/// It is cheap to clone, and a clone changes routes while the outbox runs.
///
/// ```
/// use pillarbox::{MemorySink, MemoryStore, Outbox, Route, Routing};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let routing = Routing::new()
///     .sink("kafka", MemorySink::new())?
///     .sink("audit", MemorySink::new())?
///     .routes(vec![
///         Route::new("orders").event_type("Order*").to("kafka").to("audit"),
///         Route::new("rest").to("audit"),
///     ])?;
/// let outbox = Outbox::builder(MemoryStore::new()).routing(&routing).start()?;
/// # outbox.close().await;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Default)]
#[must_use = "a routing does nothing until it is given to an outbox"]
pub struct Routing(Arc<Shared>);

#[derive(Default)]
struct Shared {
    sinks: RwLock<BTreeMap<String, Arc<Destination>>>,
    table: RwLock<Arc<Vec<Row>>>,
    paused: RwLock<BTreeSet<String>>,
    /// How long events of these wait before they are looked at again, if that was set.
    look_again_after: RwLock<Option<Duration>>,
}

/// A route, and where it leads.
struct Row {
    route: Route,
    to: Arc<SinkSet>,
}

/// What is wrong with sinks and routes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RoutingError {
    /// A name has a form that cannot be stored or typed.
    #[error("`{name}` is no name of a sink or route; use 1 to 64 letters, digits, `.`, `_` and `-`")]
    BadName {
        /// The name.
        name: String,
    },
    /// Two sinks have one name.
    #[error("two sinks are called `{name}`; each needs its own name, by which it is stored who has an event")]
    SameSink {
        /// The name.
        name: String,
    },
    /// Two routes have one name.
    #[error("two routes are called `{name}`; each needs its own name, by which it can be paused")]
    SameRoute {
        /// The name.
        name: String,
    },
    /// A route leads nowhere.
    #[error("route `{route}` names no sink; say where its events go")]
    NoSinks {
        /// The route.
        route: String,
    },
    /// A route names a sink twice.
    #[error("route `{route}` names sink `{sink}` twice; an event goes to a sink once")]
    SinkTwice {
        /// The route.
        route: String,
        /// The sink.
        sink: String,
    },
    /// A route names a sink that there is not.
    #[error("route `{route}` names sink `{sink}`, which is not there; {}", known_sinks(.nearest, .known))]
    NoSuchSink {
        /// The route.
        route: String,
        /// The sink.
        sink: String,
        /// What was probably meant.
        nearest: Option<String>,
        /// The sinks that there are.
        known: Vec<String>,
    },
}

fn known_sinks(nearest: &Option<String>, known: &[String]) -> String {
    let meant = nearest.as_ref().map(|name| format!("did you mean `{name}`? ")).unwrap_or_default();
    match known {
        [] => "there are no sinks".to_owned(),
        _ => format!("{meant}there are `{}`", known.join("`, `")),
    }
}

/// How a sink is doing.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SinkHealth {
    /// Its name.
    pub name: String,
    /// How it is doing.
    pub health: Health,
    /// What it said when it was last found to be down; it stays when it is well again.
    pub last_error: Option<String>,
}

/// Where an event would go.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Explanation {
    /// The route that takes it.
    pub route: String,
    /// Whether the route is paused.
    pub is_paused: bool,
    /// Each sink, and the address that the route gives: the text, or why it cannot be made of this event. None where the
    /// sink's own address counts.
    pub sinks: Vec<(String, Option<Result<String, String>>)>,
}

impl Routing {
    /// No sinks, and no routes: every event is unroutable.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a sink under a name: 1 to 64 letters, digits, `.`, `_` and `-`. An outbox knows the sinks that were there when
    /// it was built.
    pub fn sink(self, name: impl Into<String>, sink: impl Sink) -> Result<Self, RoutingError> {
        self.boxed_sink(name, Box::new(sink))
    }

    /// The same, for a sink of any type.
    pub fn boxed_sink(self, name: impl Into<String>, sink: Box<dyn Sink>) -> Result<Self, RoutingError> {
        let name = name.into();
        check_name(&name)?;
        let mut sinks = self.0.sinks.write().unwrap_or_else(PoisonError::into_inner);
        if sinks.contains_key(&name) {
            return Err(RoutingError::SameSink { name });
        }
        sinks.insert(name, Arc::new(Destination::new(sink)));
        drop(sinks);
        Ok(self)
    }

    /// Sets the routes, in place of those before.
    pub fn routes(self, routes: Vec<Route>) -> Result<Self, RoutingError> {
        self.set_routes(routes)?;
        Ok(self)
    }

    /// Sets the routes of a routing that is in use: events that were not begun go by the new ones. If anything is wrong
    /// with these, the old ones stay.
    pub fn set_routes(&self, routes: Vec<Route>) -> Result<(), RoutingError> {
        let rows = self.rows(routes)?;
        let routed: BTreeSet<Arc<str>> =
            rows.iter().flat_map(|row| &row.to.legs).map(|leg| leg.id.clone()).collect();
        *self.0.table.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(rows);
        for (name, destination) in &*self.0.sinks.read().unwrap_or_else(PoisonError::into_inner) {
            destination.set_routed(routed.contains(name.as_str()));
        }
        Ok(())
    }

    /// What would be wrong with these routes.
    pub fn check_routes(&self, routes: &[Route]) -> Result<(), RoutingError> {
        self.rows(routes.to_vec()).map(drop)
    }

    fn rows(&self, routes: Vec<Route>) -> Result<Vec<Row>, RoutingError> {
        let mut names = BTreeSet::new();
        for route in &routes {
            check_name(&route.name)?;
            if !names.insert(route.name.clone()) {
                return Err(RoutingError::SameRoute { name: route.name.to_string() });
            }
        }
        routes.into_iter().map(|route| self.row(route)).collect()
    }

    fn row(&self, route: Route) -> Result<Row, RoutingError> {
        let sinks = self.0.sinks.read().unwrap_or_else(PoisonError::into_inner);
        if route.to.is_empty() {
            return Err(RoutingError::NoSinks { route: route.name.to_string() });
        }
        let mut legs: Vec<Leg> = Vec::with_capacity(route.to.len());
        for (sink, address) in &route.to {
            let Some(destination) = sinks.get(sink) else {
                let known: Vec<&str> = sinks.keys().map(String::as_str).collect();
                return Err(RoutingError::NoSuchSink {
                    route: route.name.to_string(),
                    sink: sink.clone(),
                    nearest: nearest(sink, &known).map(str::to_owned),
                    known: sinks.keys().cloned().collect(),
                });
            };
            if legs.iter().any(|leg| *leg.id == **sink) {
                return Err(RoutingError::SinkTwice { route: route.name.to_string(), sink: sink.clone() });
            }
            let id = sink.as_str().into();
            legs.push(Leg { id, destination: destination.clone(), address: address.clone() });
        }
        Ok(Row { route, to: Arc::new(SinkSet { legs, is_tracked: true }) })
    }

    /// Sets how long an event of a paused route waits before it is looked at again; a minute unless it is set.
    ///
    /// Each look writes the row. Whoever [recalls](crate::store::PausedRoute::recall) what waits when a pause ends, as the
    /// relay does, needs looks as a safety net only, and sets much more: else a long backlog that is paused keeps the
    /// database busier than delivering it would.
    pub fn look_again_after(self, time: Duration) -> Self {
        *self.0.look_again_after.write().unwrap_or_else(PoisonError::into_inner) = Some(time);
        self
    }

    /// Sets which routes are paused: their events wait, visibly, and are looked at again
    /// [every minute](Self::look_again_after), or at once by
    /// [`PausedRoute::recall`](crate::store::PausedRoute::recall). A name that no route has is kept for one that comes.
    pub fn set_paused(&self, routes: impl IntoIterator<Item = String>) {
        let paused: BTreeSet<String> = routes.into_iter().collect();
        *self.0.paused.write().unwrap_or_else(PoisonError::into_inner) = paused;
    }

    /// The names of the routes that are paused, in the order of the alphabet; those that no route has are among them.
    pub fn paused(&self) -> Vec<String> {
        self.0.paused.read().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }

    /// The names of the routes, in order.
    pub fn route_names(&self) -> Vec<String> {
        self.table().iter().map(|row| row.route.name.to_string()).collect()
    }

    /// How all sinks are doing.
    pub fn health(&self) -> Vec<SinkHealth> {
        let sinks = self.0.sinks.read().unwrap_or_else(PoisonError::into_inner);
        let health = |(name, destination): (&String, &Arc<Destination>)| SinkHealth {
            name: name.clone(),
            health: destination.breaker.health(),
            last_error: destination.last_error(),
        };
        sinks.iter().map(health).collect()
    }

    /// Where an event would go; `None` if no route takes it.
    pub fn explain(&self, event: &Event) -> Option<Explanation> {
        let table = self.table();
        let row = table.iter().find(|row| row.route.takes(event))?;
        let address = |leg: &Leg| {
            let filled =
                leg.address.as_ref().map(|address| address.fill(event).map_err(|error| error.to_string()));
            (leg.id.to_string(), filled)
        };
        Some(Explanation {
            route: row.route.name.to_string(),
            is_paused: self.is_paused(&row.route.name),
            sinks: row.to.legs.iter().map(address).collect(),
        })
    }

    pub(crate) fn destinations(&self) -> Destinations {
        let sinks = self.0.sinks.read().unwrap_or_else(PoisonError::into_inner);
        Destinations(sinks.values().cloned().collect())
    }

    fn table(&self) -> Arc<Vec<Row>> {
        self.0.table.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn paused_for(&self) -> Duration {
        self.0.look_again_after.read().unwrap_or_else(PoisonError::into_inner).unwrap_or(HOLD_FOR)
    }

    fn is_paused(&self, route: &str) -> bool {
        self.0.paused.read().unwrap_or_else(PoisonError::into_inner).contains(route)
    }
}

fn check_name(name: &str) -> Result<(), RoutingError> {
    check_id(name).map_err(|_| RoutingError::BadName { name: name.to_owned() })
}

impl Registry for Routing {
    fn route(&self, event: &Event) -> Option<Target> {
        let table = self.table();
        let row = table.iter().find(|row| row.route.takes(event))?;
        Some(Target(match self.is_paused(&row.route.name) && !mutant!(PauseIgnored) {
            true => Receiver::Paused(row.route.name.clone(), self.paused_for()),
            false => Receiver::Sinks(row.to.clone()),
        }))
    }
}

impl std::fmt::Debug for Routing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Routing").field("routes", &self.route_names()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MemorySink;

    fn routing() -> Routing {
        let sinks = Routing::new().sink("kafka", MemorySink::new()).unwrap();
        sinks.sink("audit", MemorySink::new()).unwrap()
    }

    fn order_placed() -> Event {
        Event::of_json("OrderPlaced", "{}").unwrap()
    }

    /// K1: the first route that takes an event decides, and says where in each sink it goes.
    #[test]
    fn first_route_decides() {
        let routing = routing()
            .routes(vec![
                Route::new("invoices").event_type("Invoice*").to("kafka"),
                Route::new("orders")
                    .event_type("Order*")
                    .to("audit")
                    .to_at("kafka", "shop.{event_type}")
                    .unwrap(),
                Route::new("rest").to("audit"),
            ])
            .unwrap();

        let explained = routing.explain(&order_placed()).unwrap();

        assert_eq!(explained.route, "orders");
        let expected = [("audit".into(), None), ("kafka".into(), Some(Ok("shop.OrderPlaced".into())))];
        assert_eq!(explained.sinks, expected);
        assert_eq!(routing.explain(&Event::of_json("Ping", "{}").unwrap()).unwrap().route, "rest");
    }

    /// K1: what is wrong with routes is said, with what was probably meant; the old ones stay.
    #[test]
    fn wrong_routes_are_refused() {
        let routing = routing().routes(vec![Route::new("all").to("kafka")]).unwrap();
        for (routes, expected) in [
            (vec![Route::new("a b").to("kafka")], "`a b` is no name of a sink or route"),
            (vec![Route::new("a").to("kafka"), Route::new("a").to("audit")], "two routes are called `a`"),
            (vec![Route::new("a")], "route `a` names no sink; say where its events go"),
            (vec![Route::new("a").to("kafka").to("kafka")], "route `a` names sink `kafka` twice"),
            (
                vec![Route::new("a").to("kakfa")],
                "route `a` names sink `kakfa`, which is not there; did you mean `kafka`? there are `audit`, `kafka`",
            ),
        ] {
            let error = routing.set_routes(routes).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}");
        }
        assert_eq!(routing.route_names(), ["all"]);
    }

    /// K1: two sinks need two names.
    #[test]
    fn sinks_need_names_of_their_own() {
        let error = routing().sink("kafka", MemorySink::new()).unwrap_err();

        assert_eq!(error, RoutingError::SameSink { name: "kafka".into() });
    }
}
