//! What the sink has to say about its server.

use async_nats::jetstream::stream::{Config, StorageType};
use pillarbox_message::Finding;
use pillarbox_nats::{NatsOptions, NatsSink};

use crate::stage::{NatsStage, messages};

async fn findings(options: NatsOptions) -> Vec<Finding> {
    NatsSink::new(options).check().await
}

/// The finding that has this text in it.
fn with<'f>(findings: &'f [Finding], text: &str) -> &'f Finding {
    findings.iter().find(|finding| finding.text.contains(text)).unwrap_or_else(|| panic!("{findings:?}"))
}

/// The server's default limit is below the largest event, and its disk may lag behind: nothing else is wrong.
pub(crate) async fn good_stream_has_one_warning_about_power(stage: &NatsStage) {
    let findings = findings(stage.options("{event_type}").new_stream(stage.stream())).await;

    assert_eq!(findings.len(), 2, "{findings:?}");
    assert!(!with(&findings, "`max_payload`, is 1048576 bytes").is_refusal());
    assert!(!with(&findings, "`sync_interval: always`").is_refusal());
}

pub(crate) async fn missing_stream_is_a_warning(stage: &NatsStage) {
    let findings = findings(stage.options("orders")).await;

    assert!(!with(&findings, "no stream takes `").is_refusal());
}

pub(crate) async fn stream_in_memory_is_a_warning(stage: &NatsStage) {
    stage.make_stream(Config { storage: StorageType::Memory, ..Default::default() }).await;

    let findings = findings(stage.options("orders")).await;

    assert!(!with(&findings, "is kept in memory").is_refusal());
}

/// Guarantee 3: without acknowledgements there is nothing to promise.
pub(crate) async fn stream_without_acknowledgements_is_refused(stage: &NatsStage) {
    stage.make_stream(Config { no_ack: true, ..Default::default() }).await;

    let findings = findings(stage.options("orders")).await;

    assert!(with(&findings, "acknowledges nothing").is_refusal());
}

/// A relay starts while its server is down.
pub(crate) async fn absent_server_is_a_warning(_: &NatsStage) {
    let options = NatsOptions::new("nats://127.0.0.1:1", "orders".parse().unwrap(), messages()).unwrap();

    let findings = findings(options).await;

    assert_eq!(findings.len(), 1, "{findings:?}");
    assert!(!with(&findings, "NATS at 127.0.0.1:1 cannot be reached").is_refusal());
}
