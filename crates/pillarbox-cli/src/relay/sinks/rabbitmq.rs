//! RabbitMQ.

use std::path::PathBuf;
use std::sync::Arc;

use pillarbox::BoxFuture;
use pillarbox_message::{Finding, Messages};
use pillarbox_rabbitmq::{RabbitMqOptions, RabbitMqSink};
use serde::Deserialize;

use super::Checked;
use super::option::{revealed, template};
use super::pair::both;
use super::secret::Secret;
use crate::age::Age;
use crate::relay::config::{Config, SinkTable};
use crate::relay::document::Mistake;

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
) -> Result<Arc<dyn Checked>, Mistake> {
    let given: Options = config.sink_options(table)?;
    let routing_key = template(config, table, "routing_key", &given.routing_key)?;
    let url = revealed(config, table, "url", &given.url)?;
    let mut options =
        RabbitMqOptions::new(&url, routing_key, messages).map_err(|error| config.wrong(table, error))?;
    if let Some(exchange) = &given.exchange {
        options = options.exchange(template(config, table, "exchange", exchange)?);
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
    Ok(Arc::new(RabbitMqSink::new(options)))
}
