//! Connections that nobody can listen to.

use std::path::PathBuf;
use std::time::Duration;

use pillarbox::Event;
use pillarbox_kafka::{KafkaOptions, Sasl, Tls};
use pillarbox_testkit::sinks::{SinkStage, publish};
use tokio::process::Command;

use crate::stage::{KafkaStage, sink};

fn order(id: &str) -> Event {
    Event::builder("OrderPlaced").id(id).json_text("{}").build().unwrap()
}

fn options(stage: &KafkaStage) -> KafkaOptions {
    stage.options_at(stage.port(5))
}

/// The certificate of the server, which has signed it itself, in a file.
async fn certificate(stage: &KafkaStage) -> PathBuf {
    let server = stage.port(5).to_string();
    let mut openssl = Command::new("openssl");
    let output = openssl
        .args(["s_client", "-connect", &server])
        .stdin(std::process::Stdio::null())
        .output()
        .await
        .unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    let (begin, end) = ("-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----\n");
    let certificate = &printed[printed.find(begin).unwrap()..printed.find(end).unwrap() + end.len()];
    let file = std::env::temp_dir().join(format!("{}.pem", stage.topic));
    std::fs::write(&file, certificate).unwrap();
    file
}

/// A broker whose certificate is vouched for gets events, whichever way the password is shown.
pub(crate) async fn events_go_over_tls_with_plain_and_scram(stage: &KafkaStage) {
    let authority = certificate(stage).await;
    let sasl = [Sasl::plain("pillarbox", "pillarbox"), Sasl::scram_sha_512("pillarbox", "pillarbox")];
    for (number, sasl) in sasl.into_iter().enumerate() {
        let sink = sink(options(stage).tls(Tls::new().authority(&authority)).sasl(sasl));

        assert_eq!(publish(&sink, &[order(&number.to_string())]).await, [Ok(())]);
    }

    assert_eq!(stage.arrived().await.len(), 2);
    std::fs::remove_file(authority).unwrap();
}

/// SCRAM needs no TLS on the wire.
pub(crate) async fn events_go_by_scram_without_tls(stage: &KafkaStage) {
    let sink = sink(stage.options_at(stage.port(4)).sasl(Sasl::scram_sha_512("pillarbox", "pillarbox")));

    assert_eq!(publish(&sink, &[order("01J")]).await, [Ok(())]);

    assert_eq!(stage.arrived().await.len(), 1);
}

/// T5: a broker that cannot prove who it is gets neither password nor events.
pub(crate) async fn certificate_that_nobody_vouches_for_is_told(stage: &KafkaStage) {
    let options = options(stage).tls(Tls::new()).sasl(Sasl::plain("pillarbox", "pillarbox"));
    let sink = sink(options.connect_timeout(Duration::from_secs(3)));

    let answers = publish(&sink, &[order("01J")]).await;

    let error = answers[0].as_ref().unwrap_err();
    assert!(error.is_unavailable(), "{error:?}");
    assert!(error.to_string().contains("certificate"), "{error}");
}
