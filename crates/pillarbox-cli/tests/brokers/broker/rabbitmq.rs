//! RabbitMQ, read by pika.

use pillarbox_testkit::servers::{self, Server};

use super::{Broker, Proxied, proxied_by_port};
use crate::database::Kind;

pub(crate) struct RabbitMq;

impl Broker for RabbitMq {
    const KIND: &'static str = "rabbitmq";
    const SERVER: Server = servers::RABBITMQ;
    const FROM: Kind = Kind::Sqlite;
    const ATTRIBUTE: &'static str = "cloudEvents_";
    const HEADER: &'static str = "";

    fn options(url: &str, name: &str) -> String {
        format!("url = '{url}'\nrouting_key = '{name}'\nconnect_timeout = '1s'\nheartbeat = '2s'")
    }

    fn proxied(url: &str) -> Proxied {
        proxied_by_port(url)
    }
}
