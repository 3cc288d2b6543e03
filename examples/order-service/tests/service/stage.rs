//! A database and topics of a test's own.

use std::process::Command;
use std::time::Duration;

use pillarbox_postgres::PostgresStore;
use pillarbox_testkit::servers::{self, Fresh, unique_name};
use pillarbox_testkit::sinks::Arrived;
use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, AlterConfig, NewTopic, ResourceSpecifier, TopicReplication};
use rdkafka::client::DefaultClientContext;
use serde_json::Value;
use sqlx::AssertSqlSafe;

use crate::kcat;
use crate::process::{Service, eventually};

/// An empty database, and a name for topics that nobody else has.
pub(crate) struct ShopStage {
    brokers: String,
    name: String,
    url: String,
    store: PostgresStore,
    kafka: AdminClient<DefaultClientContext>,
}

impl ShopStage {
    /// The program, told where everything is.
    pub(crate) fn program(&self) -> Command {
        let mut program = Command::new(env!("CARGO_BIN_EXE_example-order-service"));
        program
            .env("DATABASE_URL", &self.url)
            .env("KAFKA_BROKERS", &self.brokers)
            .env("ORDERS_TOPIC", format!("{}.{{event_type}}", self.name));
        program
    }

    pub(crate) fn start(&self) -> Service {
        Service::start(&mut self.program())
    }

    /// The topic of its events.
    pub(crate) fn topic(&self) -> String {
        format!("{}.OrderCreated", self.name)
    }

    /// Makes the topic, with settings.
    pub(crate) async fn create_topic(&self, settings: &[(&str, &str)]) {
        let name = self.topic();
        let topic = NewTopic::new(&name, 3, TopicReplication::Fixed(1));
        let topic = settings.iter().fold(topic, |topic, (name, value)| topic.set(name, value));
        self.kafka.create_topics([&topic], &AdminOptions::new()).await.unwrap()[0].as_ref().unwrap();
        let patience = Duration::from_secs(60);
        eventually("the broker knows the topic", || {
            let metadata = self.kafka.inner().fetch_metadata(Some(&name), patience).unwrap();
            let partitions = metadata.topics()[0].partitions();
            let is_there =
                !partitions.is_empty() && partitions.iter().all(|partition| partition.leader() >= 0);
            is_there.then_some(())
        });
    }

    /// Changes a setting of the topic.
    pub(crate) async fn alter_topic(&self, setting: &str, value: &str) {
        let name = self.topic();
        let change = AlterConfig::new(ResourceSpecifier::Topic(&name)).set(setting, value);
        self.kafka.alter_configs([&change], &AdminOptions::new()).await.unwrap()[0].as_ref().unwrap();
    }

    /// What has arrived on the topic, by kcat.
    pub(crate) async fn arrived(&self) -> Vec<Arrived> {
        kcat::read(&self.brokers, &self.topic()).await
    }

    pub(crate) async fn execute(&self, sql: impl Into<String>) {
        sqlx::raw_sql(AssertSqlSafe(sql.into())).execute(self.store.pool()).await.unwrap();
    }

    pub(crate) async fn number(&self, sql: &'static str) -> i64 {
        sqlx::query_scalar(sql).fetch_one(self.store.pool()).await.unwrap()
    }
}

/// The body of an order for one teapot.
pub(crate) fn order_of(customer: &str) -> String {
    format!(r#"{{"customer":"{customer}","items":[{{"sku":"teapot","quantity":2,"unitCents":1250}}]}}"#)
}

/// Places an order, and gives its id and that of its event.
pub(crate) fn place(service: &Service, body: &str) -> (String, String) {
    let placed = service.post("/orders", body);
    assert_eq!(placed.status, 201, "{placed:?}");
    let text = |name: &str| placed.body[name].as_str().unwrap().to_owned();
    assert!(placed.head.contains(&format!("location: /orders/{}\r\n", text("orderId"))), "{}", placed.head);
    (text("orderId"), text("eventId"))
}

/// The event as the admin sees it, as soon as it has this status.
pub(crate) fn event_that_is(service: &Service, event_id: &str, status: &str) -> Value {
    let mut last = Value::Null;
    eventually(&format!("event {event_id} is {status}"), || {
        last = service.get(&format!("/admin/outbox/{event_id}")).body;
        (last["status"] == status).then(|| last.clone())
    })
}

impl Fresh for ShopStage {
    async fn fresh(brokers: &str) -> Self {
        let server = servers::POSTGRES.url().expect("looked for in `main`");
        let name = unique_name();
        let admin = PostgresStore::connect(&server).await.unwrap();
        let create = AssertSqlSafe(format!("CREATE DATABASE {name}"));
        sqlx::raw_sql(create).execute(admin.pool()).await.unwrap();
        admin.close().await;
        let (before, _) = server.rsplit_once('/').expect("the URL names a database");
        let url = format!("{before}/{name}");
        let store = PostgresStore::connect(&url).await.unwrap();
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", brokers).set("allow.auto.create.topics", "false");
        Self { brokers: brokers.to_owned(), name, url, store, kafka: config.create().unwrap() }
    }

    async fn clean(self) {
        let _ = self.kafka.delete_topics(&[&self.topic()], &AdminOptions::new()).await;
        self.store.close().await;
        let admin = PostgresStore::connect(servers::POSTGRES.url().unwrap()).await.unwrap();
        let drop = AssertSqlSafe(format!("DROP DATABASE {} WITH (FORCE)", self.name));
        sqlx::raw_sql(drop).execute(admin.pool()).await.unwrap();
        admin.close().await;
    }
}
