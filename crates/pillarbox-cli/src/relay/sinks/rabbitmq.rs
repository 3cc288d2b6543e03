//! RabbitMQ.

use std::path::PathBuf;
use std::sync::Arc;

use pillarbox::BoxFuture;
use pillarbox_message::{Finding, Messages};
use pillarbox_rabbitmq::{RabbitMqOptions, RabbitMqSink};
use serde::Deserialize;

use super::option::{revealed, template, wrong_in};
use super::pair::both;
use super::slashes::check_slashes;
use super::{Checked, Own};
use crate::age::Age;
use crate::relay::config::{Config, SinkTable};
use crate::relay::document::Mistake;
use crate::relay::secret::Secret;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Options {
    #[serde(rename = "type")]
    _kind: String,
    url: Secret,
    routing_key: String,
    exchange: Option<String>,
    user: Option<String>,
    password: Option<Secret>,
    ca_file: Option<PathBuf>,
    connect_timeout: Option<Age>,
    heartbeat: Option<Age>,
}

impl Checked for RabbitMqSink {
    fn findings(&self) -> BoxFuture<'_, Vec<Finding>> {
        Box::pin(self.check())
    }
}

pub(super) fn make(
    config: &Config,
    table: &SinkTable,
    messages: Messages,
) -> Result<(Arc<dyn Checked>, Own), Mistake> {
    let given: Options = config.sink_options(table)?;
    let routing_key = template(config, table, "routing_key", &given.routing_key)?;
    let url = revealed(config, table, "url", &given.url)?;
    check_slashes(config, table, &url, "amqp://user:password@host:5672/vhost")?;
    let mut own = Own { address: Some(routing_key.clone()), always: None };
    let mut options = RabbitMqOptions::new(&url, routing_key, messages)
        .map_err(|error| wrong_in(config, table, "url", error))?;
    if let Some(exchange) = &given.exchange {
        let exchange = template(config, table, "exchange", exchange)?;
        own.always = Some(exchange.clone());
        options = options.exchange(exchange);
    }
    if let Some((user, password)) = both(config, table, ("user", given.user), ("password", given.password))? {
        options = options.user(user, revealed(config, table, "password", &password)?);
    }
    if let Some(file) = &given.ca_file {
        options = options.ca_file(file);
    }
    if let Some(limit) = given.connect_timeout {
        options = options.connect_timeout(limit.duration);
    }
    if let Some(every) = given.heartbeat {
        options = options.heartbeat(every.duration);
    }
    Ok((Arc::new(RabbitMqSink::new(options)), own))
}
