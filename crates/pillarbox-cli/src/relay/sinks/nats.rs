//! NATS JetStream.

mod seed;

use std::path::PathBuf;
use std::sync::Arc;

use pillarbox::BoxFuture;
use pillarbox_message::{Finding, Messages};
use pillarbox_nats::{NatsOptions, NatsSink, NewStream};
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
    subject: String,
    user: Option<String>,
    password: Option<Secret>,
    token: Option<Secret>,
    nkey: Option<Secret>,
    credentials_file: Option<PathBuf>,
    ca_file: Option<PathBuf>,
    certificate_file: Option<PathBuf>,
    key_file: Option<PathBuf>,
    domain: Option<String>,
    connect_timeout: Option<Age>,
    ack_timeout: Option<Age>,
    stream: Option<StreamTable>,
}

/// A stream that is made if it is not there.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StreamTable {
    name: String,
    subjects: Vec<String>,
    replicas: Option<usize>,
    duplicate_window: Option<Age>,
    max_age: Option<Age>,
}

impl Checked for NatsSink {
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
    let subject = template(config, table, "subject", &given.subject)?;
    let url = revealed(config, table, "url", &given.url)?;
    for server in url.split(',') {
        check_slashes(config, table, server, "nats://user:password@host:4222")?;
    }
    let own = Own { address: Some(subject.clone()), always: None };
    let mut options =
        NatsOptions::new(&url, subject, messages).map_err(|error| wrong_in(config, table, "url", error))?;
    if let Some((user, password)) = both(config, table, ("user", given.user), ("password", given.password))? {
        options = options.user(user, revealed(config, table, "password", &password)?);
    }
    if let Some(token) = &given.token {
        options = options.token(revealed(config, table, "token", token)?);
    }
    if let Some(seed) = &given.nkey {
        let seed = revealed(config, table, "nkey", seed)?;
        seed::check(&seed).map_err(|error| wrong_in(config, table, "nkey", error))?;
        options = options.nkey(seed);
    }
    if let Some(file) = given.credentials_file {
        options = options.credentials_file(file);
    }
    if let Some(file) = given.ca_file {
        options = options.ca_file(file);
    }
    let files = (("certificate_file", given.certificate_file), ("key_file", given.key_file));
    if let Some((certificate, key)) = both(config, table, files.0, files.1)? {
        options = options.client_certificate(certificate, key);
    }
    if let Some(domain) = given.domain {
        options = options.domain(domain);
    }
    if let Some(limit) = given.connect_timeout {
        options = options.connect_timeout(limit.duration);
    }
    if let Some(limit) = given.ack_timeout {
        options = options.ack_timeout(limit.duration);
    }
    if let Some(stream) = given.stream {
        options = options.new_stream(stream.options());
    }
    Ok((Arc::new(NatsSink::new(options)), own))
}

impl StreamTable {
    fn options(self) -> NewStream {
        let mut stream = NewStream::new(self.name, self.subjects);
        if let Some(replicas) = self.replicas {
            stream = stream.replicas(replicas);
        }
        if let Some(window) = self.duplicate_window {
            stream = stream.duplicate_window(window.duration);
        }
        if let Some(age) = self.max_age {
            stream = stream.max_age(age.duration);
        }
        stream
    }
}
