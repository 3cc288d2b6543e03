//! NATS JetStream, read by nats-py.

use pillarbox_testkit::servers::{self, Server};

use super::{Broker, Proxied, proxied_by_port};
use crate::database::Kind;

pub(crate) struct Nats;

impl Broker for Nats {
    const KIND: &'static str = "nats";
    const SERVER: Server = servers::NATS;
    const FROM: Kind = Kind::MySql;
    const ATTRIBUTE: &'static str = "ce-";
    const HEADER: &'static str = "";

    fn options(url: &str, name: &str) -> String {
        format!(
            "url = '{url}'\nsubject = '{name}.{{event_type}}'\nconnect_timeout = '1s'\nack_timeout = '3s'"
        )
    }

    fn proxied(url: &str) -> Proxied {
        proxied_by_port(url)
    }
}
