//! Apache Kafka, read by kcat.

use std::process::Command;

use pillarbox_testkit::servers::{self, Server};
use serde::Deserialize;

use super::{Arrival, Broker, PORT, Proxied};
use crate::database::Kind;
use crate::tools::output;

pub(crate) struct Kafka;

/// A message as kcat shows it.
#[derive(Deserialize)]
struct Shown {
    headers: Vec<String>,
    key: Option<String>,
    payload: String,
}

impl Broker for Kafka {
    const KIND: &'static str = "kafka";
    const SERVER: Server = servers::KAFKA;
    const FROM: Kind = Kind::Postgres;
    const ATTRIBUTE: &'static str = "ce_";
    const HEADER: &'static str = "";

    fn options(url: &str, name: &str) -> String {
        format!("brokers = '{url}'\ntopic = '{name}'\nconnect_timeout = '1s'\ndelivery_timeout = '4s'")
    }

    fn read(url: &str, name: &str) -> Vec<Arrival> {
        let mut kcat = Command::new("kcat");
        kcat.args(["-C", "-b", url, "-t", name, "-o", "beginning", "-e", "-q", "-J"]);
        output(kcat).lines().map(arrival).collect()
    }

    /// Brokers tell their clients where to connect: `scripts/services` has it that this is three ports on for those who
    /// come by the second.
    fn proxied(url: &str) -> Proxied {
        let port: u16 = url.rsplit_once(':').unwrap().1.parse().unwrap();
        Proxied { listen: port + 3, to: port + 2, url: format!("127.0.0.1:{PORT}") }
    }
}

fn arrival(line: &str) -> Arrival {
    let Shown { headers, key, payload } = serde_json::from_str(line).unwrap();
    let mut headers: std::collections::BTreeMap<String, String> =
        headers.chunks(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect();
    let id = headers["event-id"].clone();
    assert_eq!(key.as_ref(), headers.get("ce_partitionkey"), "the key decides about the partition");
    headers.retain(|name, _| name != "content-type");
    Arrival { id, headers, body: payload }
}
