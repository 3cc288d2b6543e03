//! The brokers, each with what its sink needs and a look at what arrived.

mod kafka;
mod nats;
mod rabbitmq;
mod redis;

use std::collections::BTreeMap;

use pillarbox_testkit::servers::Server;
use serde::Deserialize;

pub(crate) use self::kafka::Kafka;
pub(crate) use self::nats::Nats;
pub(crate) use self::rabbitmq::RabbitMq;
pub(crate) use self::redis::Redis;
use crate::database::Kind;
use crate::tools::client;

/// One kind of broker.
pub(crate) trait Broker: 'static {
    /// As `scripts/services` and the relay's file call it.
    const KIND: &'static str;
    /// Where the shared one is found.
    const SERVER: Server;
    /// The database whose events go there when nothing goes wrong.
    const FROM: Kind;
    /// What the names of attributes begin with.
    const ATTRIBUTE: &'static str;
    /// What the names of the event's own headers begin with.
    const HEADER: &'static str;

    /// The options of a sink to `name`, beside its type, such that an outage is noticed within seconds.
    fn options(url: &str, name: &str) -> String;

    /// Everything that arrived at `name`, in the broker's order; the order is that of each key at least.
    fn read(url: &str, name: &str) -> Vec<Arrival> {
        let lines = client("read", Self::KIND, url, name);
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Where a relay connects whose answers can be lost, and where that leads: a proxy goes in between.
    fn proxied(url: &str) -> Proxied;
}

/// A way to a broker that a proxy can stand in.
pub(crate) struct Proxied {
    /// Where the proxy listens; any free port if it is 0.
    pub(crate) listen: u16,
    /// Where it leads.
    pub(crate) to: u16,
    /// The URL of the broker, with this in place of the port.
    pub(crate) url: String,
}

/// What stands for the port of a proxy in a URL.
pub(crate) const PORT: &str = "{port}";

/// A broker whose URL leads there whatever the port is.
fn proxied_by_port(url: &str) -> Proxied {
    let (before, after) = url.rsplit_once(':').unwrap();
    let digits = after.find(|character: char| !character.is_ascii_digit()).unwrap_or(after.len());
    let (port, after) = after.split_at(digits);
    Proxied { listen: 0, to: port.parse().unwrap(), url: format!("{before}:{PORT}{after}") }
}

/// What another client found.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Arrival {
    /// By which the broker, or its consumers, know the event.
    pub(crate) id: String,
    /// Attributes and headers, as the broker has them.
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: String,
}
