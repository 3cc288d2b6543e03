//! Servers that are full, replicas, strict, weak, or encrypted.

use std::time::Duration;

use pillarbox_redis::RedisSink;
use pillarbox_testkit::port;
use pillarbox_testkit::sinks::publish;

use crate::private::{Running, ServerHome};
use crate::stage::{command, event_ids, options, order_placed, sink};

/// The error to one event.
async fn error(server: &Running) -> pillarbox::SinkError {
    let answers = publish(&sink(options(&server.url, "orders")), &[order_placed("order-17")]).await;
    answers[0].clone().unwrap_err()
}

/// T5: a server that has no memory left says nothing about the event.
pub(crate) async fn full_server_is_unavailable(servers: &ServerHome) {
    let server = servers.start("maxmemory 1").await;

    let error = error(&server).await;

    assert!(error.is_unavailable(), "{error:?}");
    assert!(error.to_string().contains("it has no memory left"), "{error}");
}

/// T5: after a failover the events wait until the server is a primary again.
pub(crate) async fn replica_is_unavailable(servers: &ServerHome) {
    let server = servers.start("").await;
    let sink = sink(options(&server.url, "orders"));
    command::<()>(&server.url, "REPLICAOF 127.0.0.1 1").await;

    let while_replica = publish(&sink, &[order_placed("order-17"), order_placed("order-18")]).await;
    let findings = RedisSink::new(options(&server.url, "orders")).check().await;
    command::<()>(&server.url, "REPLICAOF NO ONE").await;
    let after = publish(&sink, &[order_placed("order-17")]).await;

    assert!(while_replica.iter().all(|answer| answer.as_ref().is_err_and(|error| error.is_unavailable())));
    assert!(while_replica[0].as_ref().unwrap_err().to_string().contains("connect to the primary"));
    assert!(findings.iter().any(|finding| finding.text.contains("the server is a replica")), "{findings:?}");
    assert_eq!(after, [Ok(())]);
}

pub(crate) async fn user_without_rights_is_unavailable(servers: &ServerHome) {
    let server = servers.start("user shop on >x ~shop:* +@all").await;
    let strict = |stream: &str| sink(options(&server.url, stream).user("shop", "x"));

    let allowed = publish(&strict("shop:orders"), &[order_placed("order-17")]).await;
    let forbidden = publish(&strict("other"), &[order_placed("order-18")]).await;

    assert_eq!(allowed, [Ok(())]);
    let error = forbidden[0].as_ref().unwrap_err();
    assert!(error.is_unavailable(), "{error:?}");
    assert!(error.to_string().contains("the user lacks a right"), "{error}");
}

/// Guarantee 3: acknowledged means that the replica has it.
pub(crate) async fn event_is_acknowledged_when_the_replica_has_it(servers: &ServerHome) {
    let primary = servers.start("repl-diskless-sync-delay 0").await;
    let replica = servers.start(&format!("replicaof 127.0.0.1 {}", primary.port)).await;
    let sink = sink(options(&primary.url, "orders").wait_replicas(1, Duration::from_secs(25)));

    let answers = publish(&sink, &["a", "b", "c"].map(order_placed)).await;

    assert_eq!(answers, [Ok(()), Ok(()), Ok(())]);
    assert_eq!(event_ids(&replica.url, "orders").await, ["a", "b", "c"]);
}

/// Guarantee 3: what only the primary has may be lost with it, and is no success.
pub(crate) async fn event_that_no_replica_has_is_unknown(servers: &ServerHome) {
    let server = servers.start("").await;
    let waiting = options(&server.url, "orders").wait_replicas(1, Duration::from_millis(10));

    let answers = publish(&sink(waiting.clone()), &[order_placed("order-17")]).await;
    let findings = RedisSink::new(waiting).check().await;

    let error = answers[0].as_ref().unwrap_err();
    assert!(error.is_unknown(), "{error:?}");
    assert!(error.to_string().contains("0 of 1 replicas have it"), "{error}");
    assert!(findings.iter().any(|finding| finding.text.contains("has 0 replicas, and 1 are waited for")));
}

pub(crate) async fn weak_settings_are_named(servers: &ServerHome) {
    let weak = "appendonly no; maxmemory 100mb; maxmemory-policy allkeys-lru; proto-max-bulk-len 1048576";
    let (weak, lazy) =
        (servers.start(weak).await, servers.start("appendonly yes; appendfsync everysec").await);

    let findings = RedisSink::new(options(&weak.url, "orders")).check().await;
    for text in
        ["`appendonly` is not `yes`", "`maxmemory-policy allkeys-lru`", "`proto-max-bulk-len`, is 1048576"]
    {
        assert!(findings.iter().any(|finding| finding.text.contains(text)), "{text}: {findings:?}");
    }
    assert_eq!(findings.len(), 3, "{findings:?}");
    let findings = RedisSink::new(options(&lazy.url, "orders")).check().await;
    assert_eq!(findings.len(), 1, "{findings:?}");
    assert!(findings[0].text.contains("`appendfsync` is not `always`"), "{}", findings[0]);
}

/// A server is trusted when its certificate is, and not otherwise.
pub(crate) async fn tls_is_spoken_and_checked(servers: &ServerHome) {
    let (certificate, key) = servers.certificate().await;
    let port = port::free();
    let files = format!("tls-cert-file {}; tls-key-file {}", certificate.display(), key.display());
    let server =
        servers.start_at(port, &format!("port 0; tls-port {port}; tls-auth-clients no; {files}")).await;
    let url = format!("rediss://127.0.0.1:{}/0", server.port);

    let trusted =
        publish(&sink(options(&url, "orders").ca_file(&certificate)), &[order_placed("order-17")]).await;
    let untrusted = publish(&sink(options(&url, "orders")), &[order_placed("order-18")]).await;

    assert_eq!(trusted, [Ok(())]);
    let error = untrusted[0].as_ref().unwrap_err();
    assert!(error.is_unavailable(), "{error:?}");
    assert!(error.to_string().contains("certificate"), "{error}");
}
