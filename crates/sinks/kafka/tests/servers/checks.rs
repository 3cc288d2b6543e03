//! What the sink finds out about a cluster.

use pillarbox_kafka::{KafkaOptions, KafkaSink};
use pillarbox_message::{Finding, Messages};

use crate::stage::KafkaStage;

async fn findings(options: KafkaOptions) -> Vec<Finding> {
    KafkaSink::new(options).unwrap().check().await
}

fn assert_found(findings: &[Finding], texts: &[&str]) {
    for text in texts {
        assert!(findings.iter().any(|finding| finding.text.contains(text)), "{text}: {findings:#?}");
    }
    assert_eq!(findings.len(), texts.len(), "{findings:#?}");
}

/// T5: a topic that takes everything has no finding, but that one broker has the only copy.
pub(crate) async fn good_topic_has_no_finding_but_its_one_copy(stage: &KafkaStage) {
    let topic = stage.create("wide", 1, &[("max.message.bytes", "2000000")]).await;

    let findings = findings(stage.options_to(&topic).max_message_bytes(2_000_000)).await;

    assert_found(&findings, &["has one copy"]);
    assert!(!findings[0].is_refusal());
}

/// V2: limits of the topic that are smaller than what is sent are told, with the remedy.
pub(crate) async fn small_limits_are_found(stage: &KafkaStage) {
    let settings = [("max.message.bytes", "20000"), ("cleanup.policy", "compact")];
    let topic = stage.create("narrow", 1, &settings).await;

    let findings = findings(stage.options_to(&topic)).await;

    assert_found(
        &findings,
        &[
            "has one copy",
            "lower `max_message_bytes` to 20000",
            "lower `batch_bytes` to 20000",
            "more than 20000 bytes are refused for good",
            "is compacted",
        ],
    );
    assert!(!findings.iter().any(Finding::is_refusal));
}

/// T5: a topic that can never acknowledge is refused.
pub(crate) async fn unreachable_copies_are_refused(stage: &KafkaStage) {
    let settings = [("max.message.bytes", "2000000"), ("min.insync.replicas", "2")];
    let topic = stage.create("strict", 1, &settings).await;

    let findings = findings(stage.options_to(&topic).max_message_bytes(2_000_000)).await;

    assert_found(&findings, &["has one copy", "no event can ever be acknowledged"]);
    assert!(findings[1].is_refusal());
}

/// T5: looking creates nothing.
pub(crate) async fn missing_topic_is_found_and_not_created(stage: &KafkaStage) {
    let options = stage.options_to(&format!("{}.missing", stage.topic)).max_message_bytes(1_048_588);

    for _ in 0..2 {
        let findings = findings(options.clone()).await;
        assert!(findings[0].text.contains("does not exist; the first event creates it"), "{findings:#?}");
    }
}

/// T5: a cluster that is not there is told, and does not keep anybody from starting.
pub(crate) async fn absent_cluster_is_found(_stage: &KafkaStage) {
    let messages = Messages::from_source("/shop").unwrap();
    let options = KafkaOptions::new("127.0.0.1:1", "orders".parse().unwrap(), messages);

    let findings = findings(options.connect_timeout(std::time::Duration::from_secs(1))).await;

    assert_found(&findings, &["no broker of `127.0.0.1:1` answers"]);
    assert!(!findings[0].is_refusal());
}
