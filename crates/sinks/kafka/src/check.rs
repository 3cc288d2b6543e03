//! What of a cluster's settings weakens the promise.

use std::collections::BTreeMap;

use pillarbox_message::Finding;
use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, ResourceSpecifier};
use rdkafka::client::DefaultClientContext;
use rdkafka::error::{KafkaError, KafkaResult};
use rdkafka::types::RDKafkaRespErr as Response;

use crate::KafkaSink;

/// The settings of a topic, or those that a new one would get.
type Settings = BTreeMap<String, String>;

/// What the metadata say of a topic.
struct Topic {
    name: String,
    /// The fewest copies that a partition has; 0 if the topic does not exist.
    copies: usize,
    has_leaderless: bool,
}

impl KafkaSink {
    /// Looks whether the cluster is there, and which of its settings weaken the promise or limit events. Of the topic as
    /// well, if it is the same for all events. Nothing is created or changed.
    pub async fn check(&self) -> Vec<Finding> {
        match self.findings().await {
            Ok(findings) => findings,
            Err(error) => vec![Finding::unreachable(format!(
                "no broker of `{}` answers, so its settings are not known; events wait until one does ({error})",
                self.options.brokers()
            ))],
        }
    }

    async fn findings(&self) -> KafkaResult<Vec<Finding>> {
        let admin = self.administrator()?;
        let (name, within) =
            (self.options.topic.as_constant().map(str::to_owned), self.options.connect_timeout);
        let asked = tokio::task::spawn_blocking(move || {
            let metadata = admin.inner().fetch_metadata(name.as_deref(), within)?;
            let topic = name.and_then(|name| metadata.topics().iter().find(|topic| topic.name() == name));
            let topic = topic.map(Topic::of);
            let broker = metadata.brokers().first().map(rdkafka::metadata::MetadataBroker::id);
            KafkaResult::Ok((admin, topic, broker.unwrap_or_default()))
        });
        let (admin, topic, broker) = asked.await.map_err(|_| KafkaError::Canceled)??;
        let Some(topic) = topic else {
            let of_broker = settings(&admin, ResourceSpecifier::Broker(broker), within).await;
            return Ok(of_broker.map_or_else(unreadable, |settings| self.limits(None, &settings)));
        };
        if topic.copies == 0 {
            let of_broker = settings(&admin, ResourceSpecifier::Broker(broker), within).await;
            return Ok(of_broker.map_or_else(unreadable, |settings| self.missing(&topic.name, &settings)));
        }
        let of_topic = settings(&admin, ResourceSpecifier::Topic(&topic.name), within).await;
        let mut findings = topic.findings();
        findings.extend(of_topic.map_or_else(unreadable, |settings| {
            let mut findings = promise(&topic, &settings);
            findings.extend(self.limits(Some(&topic.name), &settings));
            findings
        }));
        Ok(findings)
    }

    /// A client that looks and creates nothing.
    fn administrator(&self) -> KafkaResult<AdminClient<DefaultClientContext>> {
        let mut config: ClientConfig = self.config.clone();
        config.set("allow.auto.create.topics", "false").remove("enable.idempotence");
        config.create()
    }

    /// A topic that is not there.
    fn missing(&self, topic: &str, broker: &Settings) -> Vec<Finding> {
        if broker.get("auto.create.topics.enable").is_some_and(|value| value == "false") {
            return vec![Finding::unreachable(format!(
                "topic `{topic}` does not exist, and the cluster creates none by itself; events wait until you create it"
            ))];
        }
        let value = |name: &str| broker.get(name).map_or("?", String::as_str);
        let (partitions, copies) = (value("num.partitions"), value("default.replication.factor"));
        let mut findings = vec![Finding::warning(format!(
            "topic `{topic}` does not exist; the first event creates it, with the cluster's defaults: \
             {partitions} partitions, {copies} copies"
        ))];
        findings.extend(self.limits(None, broker));
        findings
    }

    /// Limits that are smaller than what the sink sends. A broker has them under another name than a topic.
    fn limits(&self, topic: Option<&str>, settings: &Settings) -> Vec<Finding> {
        let (name, owner) = match topic {
            Some(topic) => ("max.message.bytes", format!("topic `{topic}`")),
            None => ("message.max.bytes", "the broker".to_owned()),
        };
        let Some(limit) = settings.get(name).and_then(|value| value.parse::<usize>().ok()) else {
            return Vec::new();
        };
        let (sent, batch) = (self.options.max_message_bytes, self.options.batch_bytes);
        let mut findings = Vec::new();
        if limit < sent {
            findings.push(Finding::warning(format!(
                "`{name}` of {owner} is {limit}, less than `max_message_bytes`, {sent}: larger events are refused after \
                 later ones of their key were sent; lower `max_message_bytes` to {limit}"
            )));
        }
        if limit < batch {
            findings.push(Finding::warning(format!(
                "`{name}` of {owner} is {limit}, less than `batch_bytes`, {batch}: whole batches are refused; lower \
                 `batch_bytes` to {limit}"
            )));
        }
        let (effective, largest) = (limit.min(sent), self.options.messages.largest());
        if effective < largest {
            findings.push(Finding::warning(format!(
                "events that take more than {effective} bytes are refused for good, and the largest that can be written \
                 takes about {largest}; raise `{name}` of {owner} and `max_message_bytes` to that, unless yours are small"
            )));
        }
        findings
    }
}

impl Topic {
    fn of(topic: &rdkafka::metadata::MetadataTopic) -> Self {
        let partitions = topic.partitions();
        Self {
            name: topic.name().to_owned(),
            copies: partitions.iter().map(|partition| partition.replicas().len()).min().unwrap_or(0),
            has_leaderless: partitions.iter().any(|partition| {
                partition.error() == Some(Response::RD_KAFKA_RESP_ERR_LEADER_NOT_AVAILABLE)
                    || partition.leader() < 0
            }),
        }
    }

    fn findings(&self) -> Vec<Finding> {
        let Self { name, copies, has_leaderless } = self;
        let mut findings = Vec::new();
        if *copies == 1 {
            findings.push(Finding::warning(format!(
                "topic `{name}` has one copy: what a broker has acknowledged is lost with its disk; give it three"
            )));
        }
        if *has_leaderless {
            findings.push(Finding::warning(format!(
                "a partition of topic `{name}` has no leader: its events wait until a broker that has a copy is back"
            )));
        }
        findings
    }
}

/// Settings that acknowledgements hang on.
fn promise(topic: &Topic, settings: &Settings) -> Vec<Finding> {
    let Topic { name, copies, .. } = topic;
    let mut findings = Vec::new();
    let in_sync = settings.get("min.insync.replicas").and_then(|value| value.parse::<usize>().ok());
    match in_sync {
        Some(in_sync) if in_sync > *copies => findings.push(Finding::refusal(format!(
            "`min.insync.replicas` of topic `{name}` is {in_sync} and it has {copies} copies: no event can ever be \
             acknowledged; lower it, or give the topic more copies"
        ))),
        Some(1) if *copies > 1 => findings.push(Finding::warning(format!(
            "`min.insync.replicas` of topic `{name}` is 1: an event can be acknowledged by one broker alone and be lost \
             with it; set it to 2"
        ))),
        _ => {}
    }
    if settings.get("unclean.leader.election.enable").is_some_and(|value| value == "true") {
        findings.push(Finding::warning(format!(
            "`unclean.leader.election.enable` of topic `{name}` is on: acknowledged events can be lost; switch it off"
        )));
    }
    if settings.get("cleanup.policy").is_some_and(|value| value.contains("compact")) {
        findings.push(Finding::warning(format!(
            "topic `{name}` is compacted: earlier events of a key vanish, and events without a key are refused"
        )));
    }
    findings
}

async fn settings(
    admin: &AdminClient<DefaultClientContext>,
    of: ResourceSpecifier<'_>,
    within: std::time::Duration,
) -> Result<Settings, String> {
    let options = AdminOptions::new().request_timeout(Some(within));
    let answer = admin.describe_configs([&of], &options).await.map_err(|error| error.to_string())?;
    let resource = answer.into_iter().next().ok_or("no answer")?.map_err(|code| code.to_string())?;
    Ok(resource.entries.into_iter().filter_map(|entry| Some((entry.name, entry.value?))).collect())
}

fn unreadable(error: String) -> Vec<Finding> {
    vec![Finding::unknown(format!(
        "the cluster does not tell its settings, so they are not checked; allow DESCRIBE_CONFIGS ({error})"
    ))]
}
