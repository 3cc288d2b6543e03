//! Redis Streams, read by redis-py.

use pillarbox_testkit::servers::{self, Server};

use super::{Broker, Proxied, proxied_by_port};
use crate::database::Kind;

pub(crate) struct Redis;

impl Broker for Redis {
    const KIND: &'static str = "redis";
    const SERVER: Server = servers::REDIS;
    const FROM: Kind = Kind::Postgres;
    const ATTRIBUTE: &'static str = "ce_";
    const HEADER: &'static str = "header.";

    fn options(url: &str, name: &str) -> String {
        format!("url = '{url}'\nstream = '{name}'\nconnect_timeout = '1s'\nanswer_timeout = '3s'")
    }

    fn proxied(url: &str) -> Proxied {
        proxied_by_port(url)
    }
}
