//! Topics of a test's own on a Kafka.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pillarbox::Sink;
use pillarbox_kafka::{KafkaOptions, KafkaSink};
use pillarbox_message::Messages;
use pillarbox_testkit::servers::{Fresh, unique_name};
use pillarbox_testkit::sinks::{Arrived, SOURCE, SinkStage};
use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;

use crate::kcat;

/// The broker tells its clients one port where a proxy can stand.
static PROXY: Mutex<()> = Mutex::new(());

/// Two topics of three partitions.
pub(crate) struct KafkaStage {
    pub(crate) brokers: String,
    pub(crate) topic: String,
    admin: AdminClient<DefaultClientContext>,
    proxy: Mutex<Option<MutexGuard<'static, ()>>>,
}

impl KafkaStage {
    /// Options for a sink to the first topic.
    #[allow(dead_code, reason = "not every test binary asks for it")]
    pub(crate) fn options(&self) -> KafkaOptions {
        self.options_to(&self.topic)
    }

    #[allow(dead_code, reason = "not every test binary asks for it")]
    pub(crate) fn options_to(&self, topic: &str) -> KafkaOptions {
        KafkaOptions::new(&self.brokers, topic.parse().unwrap(), Messages::from_source(SOURCE).unwrap())
    }

    /// Options for a sink that goes to the first topic by another listener.
    pub(crate) fn options_at(&self, listener: SocketAddr) -> KafkaOptions {
        let messages = Messages::from_source(SOURCE).unwrap();
        KafkaOptions::new(listener.to_string(), self.topic.parse().unwrap(), messages)
    }

    /// Makes another topic, with settings, and gives its name.
    #[allow(dead_code, reason = "not every test binary asks for it")]
    pub(crate) async fn create(&self, suffix: &str, partitions: i32, settings: &[(&str, &str)]) -> String {
        let name = format!("{}.{suffix}", self.topic);
        let topic = NewTopic::new(&name, partitions, TopicReplication::Fixed(1));
        let topic = settings.iter().fold(topic, |topic, (name, value)| topic.set(name, value));
        let made = self.admin.create_topics([&topic], &AdminOptions::new()).await.unwrap();
        made[0].as_ref().unwrap();
        self.see(&name).await;
        name
    }

    /// Waits until the broker knows a topic that its controller has made.
    async fn see(&self, topic: &str) {
        let patience = Duration::from_secs(60);
        let end = tokio::time::Instant::now() + patience;
        loop {
            let metadata = self.admin.inner().fetch_metadata(Some(topic), patience).unwrap();
            let partitions = metadata.topics()[0].partitions();
            if !partitions.is_empty() && partitions.iter().all(|partition| partition.leader() >= 0) {
                return;
            }
            assert!(tokio::time::Instant::now() < end, "the broker does not know topic `{topic}`");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// What has arrived in a topic.
    pub(crate) async fn arrived_in(&self, topic: &str) -> Vec<Arrived> {
        kcat::read(&self.brokers, topic).await
    }

    /// The port `distance` behind the first one of the server.
    pub(crate) fn port(&self, distance: u16) -> SocketAddr {
        let mut address: SocketAddr = self.brokers.parse().unwrap();
        address.set_port(address.port() + distance);
        address
    }
}

pub(crate) fn sink(options: KafkaOptions) -> Arc<dyn Sink> {
    Arc::new(KafkaSink::new(options).unwrap())
}

impl Fresh for KafkaStage {
    async fn fresh(url: &str) -> Self {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", url).set("allow.auto.create.topics", "false");
        let admin = config.create().unwrap();
        let stage = Self { brokers: url.to_owned(), topic: unique_name(), admin, proxy: Mutex::new(None) };
        let names = [stage.topic.clone(), stage.elsewhere()];
        let topics = names.each_ref().map(|name| NewTopic::new(name, 3, TopicReplication::Fixed(1)));
        for made in stage.admin.create_topics(&topics, &AdminOptions::new()).await.unwrap() {
            made.unwrap();
        }
        for name in &names {
            stage.see(name).await;
        }
        stage
    }

    async fn clean(self) {
        let metadata = self.admin.inner().fetch_metadata(None, Duration::from_secs(10));
        let Ok(metadata) = metadata else { return };
        let names = metadata.topics().iter().map(|topic| topic.name());
        let own: Vec<&str> = names.filter(|name| name.starts_with(&self.topic)).collect();
        let _ = self.admin.delete_topics(&own, &AdminOptions::new()).await;
    }
}

impl SinkStage for KafkaStage {
    async fn sink(&self, messages: Messages, server: Option<SocketAddr>) -> Arc<dyn Sink> {
        let brokers = server.map_or_else(|| self.brokers.clone(), |server| server.to_string());
        sink(KafkaOptions::new(brokers, self.topic.parse().unwrap(), messages))
    }

    /// The listener for those who come through a proxy.
    fn server(&self) -> SocketAddr {
        self.port(2)
    }

    fn proxied(&self) -> SocketAddr {
        let turn = PROXY.lock().unwrap_or_else(PoisonError::into_inner);
        *self.proxy.lock().unwrap() = Some(turn);
        self.port(3)
    }

    async fn arrived(&self) -> Vec<Arrived> {
        self.arrived_in(&self.topic).await
    }

    fn elsewhere(&self) -> String {
        format!("{}.elsewhere", self.topic)
    }

    async fn arrived_elsewhere(&self) -> Vec<Arrived> {
        self.arrived_in(&self.elsewhere()).await
    }
}
