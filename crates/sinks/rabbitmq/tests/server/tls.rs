//! `amqps://`.

use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;

use pillarbox::Sink;
use pillarbox_message::Messages;
use pillarbox_rabbitmq::{RabbitMqOptions, RabbitMqSink};
use pillarbox_testkit::sinks::{SinkStage, publish};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;

use crate::routing::order;
use crate::stage::{PYTHON, RabbitMqStage};

/// A server is trusted when its certificate is, and not otherwise.
pub(crate) async fn tls_is_spoken_and_checked(stage: &RabbitMqStage) {
    let directory = TempDir::new().unwrap();
    let (certificate, key) = (directory.path().join("cert.pem"), directory.path().join("key.pem"));
    make_certificate(&certificate, &key).await;
    let mut tunnel = Command::new(PYTHON.url().unwrap())
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/tls.py"))
        .args([&certificate, &key])
        .args([stage.server().ip().to_string(), stage.server().port().to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut port = String::new();
    BufReader::new(tunnel.stdout.take().unwrap()).read_line(&mut port).await.unwrap();
    let url = stage.url.replace("amqp://", "amqps://");
    let url = url.replace(&stage.server().to_string(), &format!("127.0.0.1:{}", port.trim()));
    let options = || {
        RabbitMqOptions::new(&url, stage.here().parse().unwrap(), Messages::from_source("/shop").unwrap())
            .unwrap()
    };
    let sink = |options| -> Arc<dyn Sink> { Arc::new(RabbitMqSink::new(options)) };

    let trusted = publish(&sink(options().ca_file(&certificate)), &[order("trusted")]).await;
    let untrusted = publish(&sink(options()), &[order("untrusted")]).await.remove(0).unwrap_err();
    let unread = RabbitMqSink::new(options().ca_file("no/such/file.pem")).check().await.remove(0);

    assert_eq!(trusted, [Ok(())]);
    assert!(untrusted.is_unavailable(), "{untrusted:?}");
    assert!(untrusted.to_string().contains("certificate"), "{untrusted}");
    assert!(unread.is_refusal());
    assert!(unread.text.contains("`no/such/file.pem` cannot be read"), "{unread}");
}

/// A certificate for 127.0.0.1, signed by itself. It is no authority's: rustls would not take it from a server then.
async fn make_certificate(certificate: &Path, key: &Path) {
    let arguments = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost \
                     -addext subjectAltName=IP:127.0.0.1 -addext basicConstraints=critical,CA:FALSE";
    let made = Command::new("openssl")
        .args(arguments.split_whitespace())
        .args([Path::new("-keyout"), key, Path::new("-out"), certificate])
        .output()
        .await
        .unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
}
