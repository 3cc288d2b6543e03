//! Redis Streams.

use std::path::PathBuf;
use std::sync::Arc;

use pillarbox::BoxFuture;
use pillarbox_message::{Finding, Messages};
use pillarbox_redis::{RedisOptions, RedisSink, Trim};
use serde::Deserialize;

use super::option::{revealed, template, wrong_in};
use super::pair::both;
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
    stream: String,
    user: Option<String>,
    password: Option<Secret>,
    database: Option<u16>,
    ca_file: Option<PathBuf>,
    certificate_file: Option<PathBuf>,
    key_file: Option<PathBuf>,
    /// About how many entries a stream keeps.
    max_length: Option<u64>,
    /// About how long a stream keeps entries.
    max_age: Option<Age>,
    wait_replicas: Option<usize>,
    wait_for: Option<Age>,
    connect_timeout: Option<Age>,
    answer_timeout: Option<Age>,
}

impl Checked for RedisSink {
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
    let stream = template(config, table, "stream", &given.stream)?;
    let url = revealed(config, table, "url", &given.url)?;
    let own = Own { address: Some(stream.clone()), always: None };
    let mut options =
        RedisOptions::new(&url, stream, messages).map_err(|error| wrong_in(config, table, "url", error))?;
    match (&given.user, &given.password) {
        (Some(user), Some(password)) => {
            options = options.user(user, revealed(config, table, "password", password)?)
        }
        (None, Some(password)) => {
            options = options.user("default", revealed(config, table, "password", password)?)
        }
        (None, None) => {}
        (Some(_), None) => return Err(config.wrong(table, "`user` needs a `password`")),
    }
    if let Some(number) = given.database {
        options = options.database(number);
    }
    if let Some(file) = &given.ca_file {
        options = options.ca_file(file);
    }
    let files = (("certificate_file", given.certificate_file), ("key_file", given.key_file));
    if let Some((certificate, key)) = both(config, table, files.0, files.1)? {
        options = options.client_certificate(certificate, key);
    }
    match (given.max_length, &given.max_age) {
        (Some(entries), None) => options = options.trim(Trim::ToLength(entries)),
        (None, Some(age)) => options = options.trim(Trim::ToAge(age.duration)),
        (None, None) => {}
        (Some(_), Some(_)) => return Err(config.wrong(table, "give `max_length` or `max_age`, not both")),
    }
    let wait = (("wait_replicas", given.wait_replicas), ("wait_for", given.wait_for));
    if let Some((count, within)) = both(config, table, wait.0, wait.1)? {
        options = options.wait_replicas(count, within.duration);
    }
    if let Some(limit) = given.connect_timeout {
        options = options.connect_timeout(limit.duration);
    }
    if let Some(limit) = given.answer_timeout {
        options = options.answer_timeout(limit.duration);
    }
    Ok((Arc::new(RedisSink::new(options)), own))
}
