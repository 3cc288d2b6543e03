//! How a sink is set up.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use pillarbox::Template;
use pillarbox_message::Messages;
use rdkafka::ClientConfig;
use rdkafka::error::KafkaError;

use crate::security::{self, Sasl, Tls};
use crate::topic;

/// What a broker takes by default.
const MAX_MESSAGE_BYTES: usize = 1_048_588;
/// The least of everything that is a time: the client looks for what is late once a second.
const SHORTEST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(900);
/// The longest that the client waits for an answer on a connection.
const LONGEST_SILENCE: Duration = Duration::from_secs(300);
/// How long a topic may take to appear, which the cluster or somebody else has just made.
const APPEARANCE: Duration = Duration::from_secs(3);

/// The options of a [`KafkaSink`](crate::KafkaSink).
#[derive(Clone)]
pub struct KafkaOptions {
    brokers: String,
    pub(crate) topic: Template,
    pub(crate) messages: Messages,
    client_id: String,
    pub(crate) connect_timeout: Duration,
    delivery_timeout: Duration,
    linger: Duration,
    pub(crate) batch_bytes: usize,
    pub(crate) max_message_bytes: usize,
    tls: Option<Tls>,
    sasl: Option<Sasl>,
    client_options: BTreeMap<String, String>,
}

/// Options with which there can be no sink.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KafkaOptionsError {
    /// No broker is named.
    #[error("no broker is named; give `host:port`, several separated by commas")]
    NoBrokers,
    /// The topic is the same for all events, and no topic of Kafka.
    #[error("{0}")]
    Topic(String),
    /// A value lies outside of its limits.
    #[error("`{name}` is {value}, and must be {limits}")]
    OutOfRange {
        /// The option.
        name: &'static str,
        /// What it is.
        value: String,
        /// What it may be.
        limits: String,
    },
    /// An option of the client that the sink sets itself, because its promise or another option hangs on it.
    #[error("the client option `{name}` cannot be set: {reason}")]
    Reserved {
        /// The client's option.
        name: String,
        /// Why, and what to do instead.
        reason: &'static str,
    },
    /// Something needs OpenSSL, which this build does not have.
    #[error("{what} needs the feature `tls` of `pillarbox-kafka`, which this build does not have")]
    NeedsTls {
        /// What needs it.
        what: String,
    },
    /// The client does not take them.
    #[error("the Kafka client does not take these options: {0}")]
    Client(String),
}

impl KafkaOptions {
    /// Options for a sink to the cluster of these brokers (`host:port`, several separated by commas) that publishes to
    /// `topic` what no route sends elsewhere.
    pub fn new(brokers: impl Into<String>, topic: Template, messages: Messages) -> Self {
        Self {
            brokers: brokers.into(),
            topic,
            messages,
            client_id: "pillarbox".to_owned(),
            connect_timeout: Duration::from_secs(5),
            delivery_timeout: Duration::from_secs(20),
            linger: Duration::from_millis(1),
            batch_bytes: 131_072,
            max_message_bytes: MAX_MESSAGE_BYTES,
            tls: None,
            sasl: None,
            client_options: BTreeMap::new(),
        }
    }

    /// The name in the brokers' logs and quotas; by default `pillarbox`.
    #[must_use]
    pub fn client_id(mut self, client_id: impl Into<String>) -> Self {
        self.client_id = client_id.into();
        self
    }

    /// How long a run waits for a cluster that does not answer, and for room in the client, before its events are
    /// answered as unavailable; by default 5 seconds, at least one.
    #[must_use]
    pub fn connect_timeout(mut self, connect_timeout: Duration) -> Self {
        self.connect_timeout = connect_timeout;
        self
    }

    /// How long the client tries to have an event acknowledged, and the longest that an event can still arrive after its
    /// run was dropped; by default 20 seconds, at least one.
    ///
    /// Together with [`connect_timeout`](Self::connect_timeout) and two seconds it must stay below the outbox's
    /// `delivery_timeout`, or events are given up while they are under way.
    #[must_use]
    pub fn delivery_timeout(mut self, delivery_timeout: Duration) -> Self {
        self.delivery_timeout = delivery_timeout;
        self
    }

    /// How long an event waits for others to share its batch; by default a millisecond.
    #[must_use]
    pub fn linger(mut self, linger: Duration) -> Self {
        self.linger = linger;
        self
    }

    /// From which size on a batch takes no further event; by default 128 KiB. Must not exceed `max.message.bytes` of any
    /// topic, for brokers refuse whole batches.
    #[must_use]
    pub fn batch_bytes(mut self, batch_bytes: usize) -> Self {
        self.batch_bytes = batch_bytes;
        self
    }

    /// The largest event that is sent, with key, headers and what its batch adds, before compression; by default
    /// 1,048,588, which is what brokers take by default. Should be the smallest `max.message.bytes` of the topics: what
    /// is refused here is refused before any later event of its key is sent.
    #[must_use]
    pub fn max_message_bytes(mut self, max_message_bytes: usize) -> Self {
        self.max_message_bytes = max_message_bytes;
        self
    }

    /// Connects by TLS.
    #[must_use]
    pub fn tls(mut self, tls: Tls) -> Self {
        self.tls = Some(tls);
        self
    }

    /// Shows a name and a password.
    #[must_use]
    pub fn sasl(mut self, sasl: Sasl) -> Self {
        self.sasl = Some(sasl);
        self
    }

    /// Sets an option of the client, librdkafka, [by its name](https://github.com/confluentinc/librdkafka/blob/master/CONFIGURATION.md),
    /// such as `compression.type`. What would weaken the promise, and what has an option here, is refused.
    #[must_use]
    pub fn client_option(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.client_options.insert(name.into(), value.into());
        self
    }

    /// What the client is made with.
    pub(crate) fn client_config(&self) -> Result<ClientConfig, KafkaOptionsError> {
        self.check()?;
        let millis = |duration: Duration| duration.as_millis().to_string();
        let half = self.delivery_timeout / 2;
        let mut config = ClientConfig::new();
        config
            .set("bootstrap.servers", &self.brokers)
            .set("client.id", &self.client_id)
            .set("message.timeout.ms", millis(self.delivery_timeout))
            .set("linger.ms", millis(self.linger))
            .set("batch.size", self.batch_bytes.to_string())
            .set("message.max.bytes", self.max_message_bytes.to_string())
            .set("socket.connection.setup.timeout.ms", millis(self.connect_timeout))
            // A connection that has gone dead is noticed while there is time to send on another.
            .set("socket.timeout.ms", millis(half.min(LONGEST_SILENCE)))
            .set("request.timeout.ms", millis(half))
            .set("topic.metadata.propagation.max.ms", millis(half.min(APPEARANCE)))
            .set("reconnect.backoff.max.ms", "1000")
            .set("queue.buffering.max.kbytes", "65536")
            // Keys go to the same partitions as with Kafka's own client.
            .set("partitioner", "murmur2_random");
        security::apply(self.tls.as_ref(), self.sasl.as_ref(), &mut config)?;
        for (name, value) in &self.client_options {
            config.set(name, value);
        }
        config.set("enable.idempotence", "true").set("acks", "all");
        Ok(config)
    }

    fn check(&self) -> Result<(), KafkaOptionsError> {
        if self.brokers.split(',').all(|broker| broker.trim().is_empty()) {
            return Err(KafkaOptionsError::NoBrokers);
        }
        if let Some(flaw) = self.topic.as_constant().and_then(topic::flaw) {
            return Err(KafkaOptionsError::Topic(flaw));
        }
        let times = [("connect_timeout", self.connect_timeout), ("delivery_timeout", self.delivery_timeout)];
        let is_wrong = |(_, value): &(_, Duration)| !(SHORTEST..=LONGEST).contains(value);
        if let Some((name, value)) = times.into_iter().find(is_wrong) {
            return Err(out_of_range(
                name,
                format!("{value:?}"),
                format!("between {SHORTEST:?} and {LONGEST:?}"),
            ));
        }
        if self.linger > self.delivery_timeout / 2 {
            let limits = format!("at most half of `delivery_timeout`, {:?}", self.delivery_timeout / 2);
            return Err(out_of_range("linger", format!("{:?}", self.linger), limits));
        }
        let sizes = [("batch_bytes", self.batch_bytes), ("max_message_bytes", self.max_message_bytes)];
        let is_wrong = |(_, value): &(_, usize)| !(1_000..=1_000_000_000).contains(value);
        if let Some((name, value)) = sizes.into_iter().find(is_wrong) {
            return Err(out_of_range(name, value.to_string(), "between 1000 and 1000000000".to_owned()));
        }
        let reserved = self.client_options.keys().find_map(|name| Some((name, reserved(name)?)));
        reserved
            .map_or(Ok(()), |(name, reason)| Err(KafkaOptionsError::Reserved { name: name.clone(), reason }))
    }

    /// The brokers, to be named in answers.
    pub(crate) fn brokers(&self) -> &str {
        &self.brokers
    }
}

fn out_of_range(name: &'static str, value: String, limits: String) -> KafkaOptionsError {
    KafkaOptionsError::OutOfRange { name, value, limits }
}

/// Why an option of the client is not for users.
fn reserved(name: &str) -> Option<&'static str> {
    Some(match name {
        "acks" | "request.required.acks" => "an event counts as published when all in-sync replicas have it",
        "enable.idempotence" => "without it a retry of the client can make duplicates and break the order",
        "enable.gapless.guarantee" | "queuing.strategy" => "the order within a key hangs on it",
        "retries" | "message.send.max.retries" => "the client tries until `delivery_timeout` is over",
        "transactional.id" => "events are published without transactions of Kafka",
        "delivery.report.only.error" => "without acknowledgements no event would ever be done",
        "bootstrap.servers" | "metadata.broker.list" => "brokers are an argument of `KafkaOptions::new`",
        "client.id" => "use `client_id`",
        "message.timeout.ms" | "delivery.timeout.ms" => "use `delivery_timeout`",
        "linger.ms" | "queue.buffering.max.ms" => "use `linger`",
        "batch.size" | "batch.num.messages" => "use `batch_bytes`",
        "message.max.bytes" => "use `max_message_bytes`",
        "security.protocol" | "sasl.mechanism" | "sasl.mechanisms" | "sasl.username" | "sasl.password" => {
            "use `sasl` and `tls`"
        }
        _ => return None,
    })
}

impl KafkaOptionsError {
    /// What the client says about its options. Values are told only where it names them itself.
    pub(crate) fn of_client(error: KafkaError) -> Self {
        match error {
            KafkaError::ClientConfig(_, text, name, _) if text.contains("not supported in this build") => {
                Self::NeedsTls { what: format!("the client option `{name}`") }
            }
            KafkaError::ClientConfig(_, text, ..) | KafkaError::ClientCreation(text) => Self::Client(text),
            other => Self::Client(other.to_string()),
        }
    }
}

impl fmt::Debug for KafkaOptions {
    /// Everything but passwords, and of options of the client the names.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KafkaOptions")
            .field("brokers", &self.brokers)
            .field("topic", &self.topic)
            .field("messages", &self.messages)
            .field("client_id", &self.client_id)
            .field("connect_timeout", &self.connect_timeout)
            .field("delivery_timeout", &self.delivery_timeout)
            .field("linger", &self.linger)
            .field("batch_bytes", &self.batch_bytes)
            .field("max_message_bytes", &self.max_message_bytes)
            .field("tls", &self.tls)
            .field("sasl", &self.sasl)
            .field("client_options", &self.client_options.keys())
            .finish()
    }
}

#[cfg(test)]
mod tests;
