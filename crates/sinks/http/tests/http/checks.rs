//! A look at the receiver.

use pillarbox_http::{HttpOptions, HttpSink, PrivateAddresses};
use pillarbox_message::Messages;

use crate::receiver::{Receiver, install_tls};

/// K2: a receiver that can be reached gives no reason to worry, and gets no request.
#[tokio::test]
async fn check_sends_no_request() {
    let receiver = Receiver::accepting().await;
    let sink = receiver.sink(HttpOptions::new());

    assert_eq!(sink.check().await, []);
    assert!(receiver.received().is_empty());
}

/// K2: a receiver that is away is a warning, for it may come back.
#[tokio::test]
async fn absent_receiver_is_a_warning() {
    let receiver = Receiver::accepting().await;
    receiver.kill().await;

    let findings = receiver.sink(HttpOptions::new()).check().await;

    assert_eq!(findings.len(), 1, "{findings:?}");
    assert!(!findings[0].is_refusal());
    assert!(findings[0].text.contains("Connection refused"), "{}", findings[0]);
}

/// K2: a name that leads to a private address is refused; plain HTTP and a small limit are warnings.
#[tokio::test]
async fn what_cannot_be_used_is_refused() {
    install_tls();
    let messages = Messages::from_source("/shop").unwrap();
    let options = HttpOptions::new().max_body(1_000).allow_private(PrivateAddresses::Refused);
    let sink = HttpSink::new("http://localhost/".parse().unwrap(), messages, options).unwrap();

    let findings = sink.check().await;

    let refusals: Vec<bool> = findings.iter().map(|finding| finding.is_refusal()).collect();
    assert_eq!(refusals, [true, false, false], "{findings:?}");
    assert!(findings[0].text.starts_with("`localhost` has the address"), "{}", findings[0]);
    assert!(findings[1].text.contains("without TLS"), "{}", findings[1]);
    assert!(findings[2].text.contains("`max_body`"), "{}", findings[2]);
}
