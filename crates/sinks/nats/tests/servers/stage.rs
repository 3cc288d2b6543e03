//! A stream of its own on a server, read back by nats-py.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use async_nats::jetstream::{self, stream};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use percent_encoding::percent_decode_str;
use pillarbox::{Event, Sink};
use pillarbox_message::Messages;
use pillarbox_nats::{NatsOptions, NatsSink, NewStream};
use pillarbox_testkit::servers::{Fresh, unique_name};
use pillarbox_testkit::sinks::{Arrived, SOURCE, SinkStage};
use serde_json::Value;
use tokio::process::Command;

pub(crate) struct NatsStage {
    pub(crate) url: String,
    /// The stream's name, and what its subjects begin with.
    pub(crate) name: String,
}

impl NatsStage {
    /// Options for a sink to `subject` behind our name, without a stream of its own.
    pub(crate) fn options(&self, subject: &str) -> NatsOptions {
        let subject = format!("{}.{subject}", self.name).parse().unwrap();
        NatsOptions::new(&self.url, subject, messages()).unwrap()
    }

    /// A stream for all subjects behind our name.
    pub(crate) fn stream(&self) -> NewStream {
        NewStream::new(&self.name, [format!("{}.>", self.name)])
    }

    /// Makes a stream for all subjects behind our name, with these settings.
    pub(crate) async fn make_stream(&self, settings: stream::Config) {
        let subjects = if settings.subjects.is_empty() {
            vec![format!("{}.>", self.name)]
        } else {
            settings.subjects.clone()
        };
        let config = stream::Config { name: self.name.clone(), subjects, ..settings };
        self.jetstream().await.create_stream(config).await.unwrap();
    }

    pub(crate) async fn jetstream(&self) -> jetstream::Context {
        jetstream::new(client(&self.url).await)
    }

    pub(crate) async fn event_ids(&self) -> Vec<String> {
        let messages = read_back(&self.url, &self.name).await;
        messages.iter().map(|message| header(message, "event-id")).collect()
    }

    async fn arrived_at(&self, subject: &str) -> Vec<Arrived> {
        let messages = read_back(&self.url, &self.name).await;
        let subject = format!("{}.{subject}", self.name);
        messages.iter().filter(|message| message["subject"] == *subject).map(arrived).collect()
    }
}

/// A client of the server at a URL with user and password.
pub(crate) async fn client(url: &str) -> async_nats::Client {
    let (user, host) = url.trim_start_matches("nats://").split_once('@').unwrap();
    let (user, password) = user.split_once(':').unwrap();
    let options = async_nats::ConnectOptions::with_user_and_password(user.to_owned(), password.to_owned());
    options.connect(host).await.unwrap()
}

pub(crate) fn messages() -> Messages {
    Messages::from_source(SOURCE).unwrap()
}

pub(crate) fn sink(options: NatsOptions) -> Arc<dyn Sink> {
    Arc::new(NatsSink::new(options))
}

pub(crate) fn order_placed(id: &str) -> Event {
    Event::builder("OrderPlaced").id(id).aggregate("Order", id).json_text("{}").build().unwrap()
}

/// What is in a stream, by a client that shares no code with the sink's.
pub(crate) async fn read_back(url: &str, stream: &str) -> Vec<Value> {
    let python = std::env::var("PILLARBOX_TEST_PYTHON").unwrap_or_else(|_| {
        panic!("`PILLARBOX_TEST_PYTHON` is not set; run `scripts/services up tools` and `eval \"$(scripts/services env)\"`")
    });
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/read_back.py");
    let read = Command::new(python).args([script, url, stream]).output().await.unwrap();
    assert!(read.status.success(), "{}", String::from_utf8_lossy(&read.stderr));
    let lines = String::from_utf8(read.stdout).unwrap();
    lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn header(message: &Value, name: &str) -> String {
    message["headers"][name].as_str().unwrap_or_default().to_owned()
}

fn arrived(message: &Value) -> Arrived {
    let (mut attributes, mut headers) = (BTreeMap::new(), BTreeMap::new());
    for (name, value) in message["headers"].as_object().unwrap() {
        let value = value.as_str().unwrap().to_owned();
        match name.strip_prefix("ce-") {
            Some(attribute) => {
                let decoded = percent_decode_str(&value).decode_utf8().unwrap().into_owned();
                attributes.insert(attribute.to_owned(), decoded);
            }
            None if !["event-id", "content-type", "Nats-Msg-Id"].contains(&name.as_str()) => {
                headers.insert(name.clone(), value);
            }
            None => {}
        }
    }
    let known_by = header(message, "Nats-Msg-Id");
    assert_eq!(known_by.split('@').next(), Some(&*header(message, "event-id")), "{known_by}");
    Arrived {
        event_id: header(message, "event-id"),
        key: None,
        content_type: header(message, "content-type"),
        attributes,
        headers,
        body: STANDARD.decode(message["body"].as_str().unwrap()).unwrap(),
    }
}

impl SinkStage for NatsStage {
    async fn sink(&self, messages: Messages, server: Option<SocketAddr>) -> Arc<dyn Sink> {
        let url = match server {
            Some(server) => {
                let (user, _) = self.url.rsplit_once('@').unwrap();
                format!("{user}@{server}")
            }
            None => self.url.clone(),
        };
        let subject = format!("{}.orders", self.name).parse().unwrap();
        sink(NatsOptions::new(&url, subject, messages).unwrap().new_stream(self.stream()))
    }

    fn server(&self) -> SocketAddr {
        self.url.rsplit_once('@').unwrap().1.parse().unwrap()
    }

    async fn arrived(&self) -> Vec<Arrived> {
        self.arrived_at("orders").await
    }

    fn elsewhere(&self) -> String {
        format!("{}.elsewhere", self.name)
    }

    async fn arrived_elsewhere(&self) -> Vec<Arrived> {
        self.arrived_at("elsewhere").await
    }
}

impl Fresh for NatsStage {
    async fn fresh(url: &str) -> Self {
        Self { url: url.to_owned(), name: unique_name() }
    }

    async fn clean(self) {
        // Not every trial has made one.
        let _ = self.jetstream().await.delete_stream(&self.name).await;
    }
}
