//! What the relay tells of itself.

use std::io::Write;
use std::process::{Command, Stdio};

use pillarbox_testkit::servers::Fresh;

use crate::arrivals::SOURCE;
use crate::database::{Database, Kind};
use crate::program::Answer;
use crate::relay::Relay;

/// Nothing but the tools.
pub(crate) struct Bare;

impl Fresh for Bare {
    async fn fresh(_: &str) -> Self {
        Self
    }

    async fn clean(self) {}
}

/// M2: Prometheus' own tool has nothing to say against the page of metrics, whatever happens: events that are delivered,
/// one that is dead, one that is refused, and a sink that is down.
pub(crate) async fn metrics_are_as_prometheus_wants_them(_: &Bare) {
    let database = Database::new(Kind::Sqlite);
    let relay = Relay::start(&format!(
        "[outbox]\nordered = true\npoll_every = '100ms'\n[outbox.store]\nurl = '{}'\n[messages]\nsource = '{SOURCE}'\n\
         [sinks.console]\ntype = 'stdout'\n\
         [sinks.hooks]\ntype = 'http'\nurl = 'http://127.0.0.1:1/hooks'\nallow_private = true\n\
         [[routes]]\nname = 'orders'\nevent_type = 'Order*'\nto = 'console'\n\
         [[routes]]\nname = 'invoices'\nevent_type = 'Invoice*'\nto = ['console', 'hooks']\n",
        database.url
    ));
    assert_right(&relay.get("/metrics"));

    database.write(0..100);
    for (id, event_type) in [("invoice-17", "InvoiceSent"), ("ping-1", "Ping")] {
        database.sql(&format!(
            "INSERT INTO outbox_event (event_id, event_type, payload) VALUES ('{id}', '{event_type}', '{{}}');"
        ));
    }
    relay.delivers(100).await;
    relay
        .until("the sink is not down, or the event not dead", |state| {
            state["dead"] == 1 && state["sinks"][1]["state"] != "well"
        })
        .await;

    let page = relay.get("/metrics");
    assert_right(&page);
    for line in ["pillarbox_died_total{outbox=\"outbox\"} 1", "pillarbox_sink_up{sink=\"console\"} 1"] {
        assert!(page.contains(line), "{line} in {page}");
    }
    assert_eq!(relay.stop().code, Some(0));
}

fn assert_right(page: &str) {
    let mut promtool = Command::new("promtool");
    promtool.args(["check", "metrics"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut promtool =
        promtool.spawn().expect("`promtool` runs; it comes with the Debian package `prometheus`");
    promtool.stdin.take().unwrap().write_all(page.as_bytes()).unwrap();
    let answer = Answer::of(promtool.wait_with_output().unwrap());
    assert_eq!((answer.code, answer.out.as_str(), answer.err.as_str()), (Some(0), "", ""), "{page}");
}
