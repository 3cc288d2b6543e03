//! What only this process can reach is not reached through it.

use std::sync::Arc;

use pillarbox_http::{HttpOptions, HttpSink, HttpSinkError, PrivateAddresses};
use pillarbox_message::Messages;

use crate::receiver::{Receiver, install_tls};
use crate::{error, event, publish};

fn sink_to(url: &str, private: PrivateAddresses) -> Result<HttpSink, HttpSinkError> {
    install_tls();
    let messages = Messages::from_source("/shop").unwrap();
    HttpSink::new(url.parse().unwrap(), messages, HttpOptions::new().allow_private(private))
}

/// K2: a URL with a private address makes no sink, however it is written.
#[test]
fn private_address_makes_no_sink() {
    for url in [
        "http://127.0.0.1/",
        "http://127.1/",
        "http://2130706433/",
        "http://0x7f.0.0.1/",
        "http://0177.0.0.1/",
        "http://169.254.169.254/latest/meta-data",
        "http://[::1]:8080/",
        "http://[::ffff:10.0.0.1]/",
        "http://[fd00::1]/",
        "http://0.0.0.0/",
        "http://１２７.0.0.1/",
    ] {
        let error = sink_to(url, PrivateAddresses::Refused).unwrap_err();
        assert!(matches!(error, HttpSinkError::PrivateAddress(_)), "{url}: {error}");
        assert!(
            error.to_string().ends_with("`allow_private` lets the sink connect to such addresses"),
            "{error}"
        );
    }
    assert!(sink_to("http://8.8.8.8/", PrivateAddresses::Refused).is_ok());
}

/// K2: a name is judged by the address that is connected to.
#[tokio::test]
async fn name_of_a_private_address_is_not_connected_to() {
    let receiver = Receiver::accepting().await;
    let url = format!("http://localhost:{}/hooks", receiver.address().port());
    let sink = Arc::new(sink_to(&url, PrivateAddresses::Refused).unwrap());

    let error = error(&sink, event("01")).await;

    assert!(error.is_unavailable(), "{error:?}");
    assert!(error.to_string().starts_with("`localhost` has the address `"), "{error}");
    assert!(error.to_string().contains("`allow_private`"), "{error}");
    assert!(receiver.received().is_empty());
}

/// K2: allowed networks are connected to, by name and by address, and no others.
#[tokio::test]
async fn allowed_network_is_connected_to() {
    let receiver = Receiver::accepting().await;
    let port = receiver.address().port();
    let only = |network: &str| PrivateAddresses::In(vec![network.parse().unwrap()]);

    for host in ["localhost", "127.0.0.1"] {
        let sink = Arc::new(sink_to(&format!("http://{host}:{port}/"), only("127.0.0.0/8")).unwrap());
        assert_eq!(publish(&sink, &[event(host)]).await, [Ok(())], "{host}");
    }
    assert!(sink_to(&format!("http://127.0.0.1:{port}/"), only("10.0.0.0/8")).is_err());
    let elsewhere = Arc::new(sink_to(&format!("http://localhost:{port}/"), only("10.0.0.0/8")).unwrap());
    assert!(error(&elsewhere, event("no")).await.is_unavailable());
    assert_eq!(receiver.ids(), ["localhost", "127.0.0.1"]);
}
