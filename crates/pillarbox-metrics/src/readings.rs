//! What somebody reads now and then.

use metrics::gauge;
use pillarbox::store::Stats;
use pillarbox::{Health, Routing, SinkHealth};

use crate::exporter::or_unknown;
use crate::names;

/// Records how many events an outbox has, by status; `None` if that could not be read.
pub fn record_stats(outbox: &str, stats: Option<&Stats>) {
    for (status, count) in [
        ("new", stats.map(|stats| stats.new)),
        ("retry", stats.map(|stats| stats.retry)),
        ("dead", stats.map(|stats| stats.dead)),
    ] {
        let gauge = gauge!(names::EVENTS, "outbox" => outbox.to_owned(), "status" => status);
        gauge.set(or_unknown(count.map(|count| count as f64)));
    }
    let done = stats.map(|stats| stats.done_estimate as f64);
    gauge!(names::DONE_ESTIMATE, "outbox" => outbox.to_owned()).set(or_unknown(done));
    // Nothing due is no lag; a failed reading is none at all.
    let oldest = stats.map(|stats| stats.oldest_due_for.unwrap_or_default().as_secs_f64());
    gauge!(names::OLDEST_DUE, "outbox" => outbox.to_owned()).set(or_unknown(oldest));
}

/// Records how sinks are doing.
pub fn record_sinks(sinks: &[SinkHealth]) {
    for sink in sinks {
        let up = match sink.health {
            Health::Well => 1.0,
            Health::Trying => 0.5,
            _ => 0.0,
        };
        gauge!(names::SINK_UP, "sink" => sink.name.clone()).set(up);
    }
}

/// A sink is gone: from now on it is not known how it is doing.
pub fn forget_sink(sink: &str) {
    gauge!(names::SINK_UP, "sink" => sink.to_owned()).set(or_unknown(None));
}

/// Records which routes of an outbox are paused.
pub fn record_routes(outbox: &str, routing: &Routing) {
    let paused = routing.paused();
    for route in routing.route_names() {
        let is_paused = f64::from(u8::from(paused.contains(&route)));
        gauge!(names::ROUTE_PAUSED, "outbox" => outbox.to_owned(), "route" => route).set(is_paused);
    }
}

/// A route of an outbox is gone: from now on it is not known whether it is paused.
pub fn forget_route(outbox: &str, route: &str) {
    let gauge = gauge!(names::ROUTE_PAUSED, "outbox" => outbox.to_owned(), "route" => route.to_owned());
    gauge.set(or_unknown(None));
}
