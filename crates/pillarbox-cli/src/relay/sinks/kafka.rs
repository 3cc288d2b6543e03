//! Apache Kafka.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use pillarbox::BoxFuture;
use pillarbox_kafka::{KafkaOptions, KafkaSink, Sasl, Tls};
use pillarbox_message::{Finding, Messages};
use serde::Deserialize;

use super::option::{revealed, template};
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
    brokers: String,
    topic: String,
    client_id: Option<String>,
    connect_timeout: Option<Age>,
    delivery_timeout: Option<Age>,
    linger: Option<Age>,
    batch_bytes: Option<usize>,
    max_message_bytes: Option<usize>,
    tls: Option<TlsTable>,
    sasl: Option<SaslTable>,
    /// Options of librdkafka that have no name here.
    #[serde(default)]
    client: BTreeMap<String, String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TlsTable {
    ca_file: Option<PathBuf>,
    certificate_file: Option<PathBuf>,
    key_file: Option<PathBuf>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SaslTable {
    mechanism: Mechanism,
    user: String,
    password: Secret,
}

#[derive(Deserialize)]
enum Mechanism {
    #[serde(rename = "plain")]
    Plain,
    #[serde(rename = "scram-sha-256")]
    ScramSha256,
    #[serde(rename = "scram-sha-512")]
    ScramSha512,
}

impl Checked for KafkaSink {
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
    let topic = template(config, table, "topic", &given.topic)?;
    let own = Own { address: Some(topic.clone()), always: None };
    let mut options = KafkaOptions::new(given.brokers, topic, messages);
    if let Some(id) = given.client_id {
        options = options.client_id(id);
    }
    if let Some(limit) = given.connect_timeout {
        options = options.connect_timeout(limit.duration);
    }
    if let Some(limit) = given.delivery_timeout {
        options = options.delivery_timeout(limit.duration);
    }
    if let Some(linger) = given.linger {
        options = options.linger(linger.duration);
    }
    if let Some(bytes) = given.batch_bytes {
        options = options.batch_bytes(bytes);
    }
    if let Some(bytes) = given.max_message_bytes {
        options = options.max_message_bytes(bytes);
    }
    if let Some(tls) = given.tls {
        options = options.tls(tls.options(config, table)?);
    }
    if let Some(SaslTable { mechanism, user, password }) = given.sasl {
        let password = revealed(config, table, "sasl.password", &password)?;
        options = options.sasl(match mechanism {
            Mechanism::Plain => Sasl::plain(user, password),
            Mechanism::ScramSha256 => Sasl::scram_sha_256(user, password),
            Mechanism::ScramSha512 => Sasl::scram_sha_512(user, password),
        });
    }
    for (name, value) in given.client {
        options = options.client_option(name, value);
    }
    let sink = KafkaSink::new(options).map_err(|error| config.wrong(table, error))?;
    Ok((Arc::new(sink), own))
}

impl TlsTable {
    fn options(self, config: &Config, table: &SinkTable) -> Result<Tls, Mistake> {
        let mut tls = Tls::new();
        if let Some(file) = self.ca_file {
            tls = tls.authority(file);
        }
        let identity = both(
            config,
            table,
            ("tls.certificate_file", self.certificate_file),
            ("tls.key_file", self.key_file),
        )?;
        if let Some((certificate, key)) = identity {
            tls = tls.identity(certificate, key);
        }
        Ok(tls)
    }
}
