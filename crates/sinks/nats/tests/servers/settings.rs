//! Servers that forbid, encrypt, or allow more than usual.

use std::time::Duration;

use pillarbox::{Event, MAX_PAYLOAD};
use pillarbox_nats::{NatsSink, NewStream};
use pillarbox_testkit::sinks::publish;

use crate::private::ServerHome;
use crate::stage::{order_placed, sink};

/// T5: that the user lacks a right says nothing about the event, and nothing of it has arrived.
pub(crate) async fn forbidden_subject_is_unavailable(server: &ServerHome) {
    let permissions = r#"publish: ["shop.allowed", "$JS.API.>"], subscribe: ["_INBOX.>"]"#;
    let user = format!(r#"{{ user: "shop", password: "x", permissions: {{ {permissions} }} }}"#);
    let _running = server.start(&format!("authorization {{ users: [ {user} ] }}")).await;
    let options = server.options("nats", "shop.{event_type}").user("shop", "x");
    let options = options.new_stream(NewStream::new("SHOP", ["shop.>"])).ack_timeout(Duration::from_secs(5));
    let event = |event_type: &str| Event::builder(event_type).json_text("{}").build().unwrap();

    let answers = publish(&sink(options), &[event("allowed"), event("forbidden")]).await;

    assert_eq!(answers[0], Ok(()));
    let error = answers[1].as_ref().unwrap_err();
    assert!(error.is_unavailable(), "{error:?}");
    assert!(error.to_string().starts_with("the user must not publish to `shop.forbidden`"), "{error}");
}

/// Guarantee 3: without JetStream nobody acknowledges anything.
pub(crate) async fn server_without_jetstream_is_refused(server: &ServerHome) {
    let _running = server.start_bare("").await;

    let findings = NatsSink::new(server.options("nats", "orders")).check().await;
    let answers = publish(&sink(server.options("nats", "orders")), &[order_placed("order-17")]).await;

    assert!(findings.iter().any(|finding| finding.is_refusal() && finding.text.contains("has no JetStream")));
    assert!(answers[0].as_ref().unwrap_err().is_unavailable(), "{answers:?}");
}

pub(crate) async fn nkey_is_accepted(server: &ServerHome) {
    let (known, stranger) = (nkeys::KeyPair::new_user(), nkeys::KeyPair::new_user());
    let users = format!(r#"authorization {{ users: [ {{ nkey: "{}" }} ] }}"#, known.public_key());
    let _running = server.start(&users).await;
    let options = |seed: String| {
        server.options("nats", "orders").nkey(seed).new_stream(NewStream::new("ORDERS", ["orders"]))
    };

    let answers = publish(&sink(options(known.seed().unwrap())), &[order_placed("order-17")]).await;
    let refused = publish(&sink(options(stranger.seed().unwrap())), &[order_placed("order-18")]).await;
    let broken = publish(&sink(options("SUNOSEED".to_owned())), &[order_placed("order-19")]).await;

    assert_eq!(answers, [Ok(())]);
    let text = refused[0].as_ref().unwrap_err().to_string();
    assert!(text.ends_with("does not accept the credentials"), "{text}");
    let text = broken[0].as_ref().unwrap_err().to_string();
    assert!(text.contains("cannot be used to sign") && !text.contains("SUNOSEED"), "{text}");
}

/// A server is trusted when its certificate is, and not otherwise.
pub(crate) async fn tls_is_spoken_and_checked(server: &ServerHome) {
    let (certificate, key) = server.certificate().await;
    let (shown, key) = (certificate.display(), key.display());
    let _running = server.start(&format!("tls {{ cert_file: \"{shown}\", key_file: \"{key}\" }}")).await;
    let options = || server.options("tls", "orders").new_stream(NewStream::new("ORDERS", ["orders"]));

    let trusted = publish(&sink(options().ca_file(&certificate)), &[order_placed("order-17")]).await;
    let untrusted = publish(&sink(options()), &[order_placed("order-18")]).await;

    assert_eq!(trusted, [Ok(())]);
    let error = untrusted[0].as_ref().unwrap_err();
    assert!(error.is_unavailable(), "{error:?}");
    assert!(error.to_string().contains("certificate"), "{error}");
}

/// V2: with a larger limit of the server the largest event arrives, and there is nothing left to warn of.
pub(crate) async fn largest_event_passes_where_the_server_lets_it(server: &ServerHome) {
    let _running = server.start("max_payload: 4MB").await;
    let options = server.options("nats", "orders").new_stream(NewStream::new("ORDERS", ["orders"]));
    let largest = Event::builder("Scan").bytes(vec![0xff; MAX_PAYLOAD]).build().unwrap();

    let findings = NatsSink::new(options.clone()).check().await;
    let answers = publish(&sink(options), &[largest]).await;

    assert!(!findings.iter().any(|finding| finding.text.contains("max_payload")), "{findings:?}");
    assert_eq!(answers, [Ok(())]);
}
