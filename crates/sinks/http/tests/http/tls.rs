//! Receivers with TLS. The certificates in `tests/tls` are for the names of their files, by an authority that nobody else
//! knows.

use std::net::SocketAddr;
use std::sync::Arc;

use pillarbox_http::{HttpOptions, HttpSink, PrivateAddresses};
use pillarbox_message::Messages;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

use crate::receiver::install_tls;
use crate::{error, event, publish};

const AUTHORITY: &[u8] = include_bytes!("../tls/authority.pem");
const LOCALHOST: &[u8] = include_bytes!("../tls/localhost.pem");
const ANOTHER: &[u8] = include_bytes!("../tls/another.example.pem");

/// Accepts one event over TLS, and gives the first line of the request; none if there was no request.
async fn receiver(certificate: &[u8]) -> (SocketAddr, JoinHandle<Option<String>>) {
    install_tls();
    let certificate = CertificateDer::from_pem_slice(certificate).unwrap();
    let key = PrivateKeyDer::from_pem_slice(include_bytes!("../tls/receiver.key")).unwrap();
    let config =
        ServerConfig::builder().with_no_client_auth().with_single_cert(vec![certificate], key).unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let accepting = tokio::spawn(async move {
        let (connection, _) = listener.accept().await.unwrap();
        let mut connection = acceptor.accept(connection).await.ok()?;
        let mut bytes = vec![0; 65_536];
        let count = connection.read(&mut bytes).await.unwrap_or_default();
        let first = String::from_utf8_lossy(&bytes[..count]).lines().next()?.to_owned();
        connection.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").await.unwrap();
        connection.flush().await.unwrap();
        Some(first)
    });
    (address, accepting)
}

fn sink(address: SocketAddr, options: HttpOptions) -> Arc<HttpSink> {
    let url = format!("https://localhost:{}/hooks", address.port()).parse().unwrap();
    let options = options.allow_private(PrivateAddresses::Allowed);
    Arc::new(HttpSink::new(url, Messages::from_source("/shop").unwrap(), options).unwrap())
}

fn trusting() -> HttpOptions {
    HttpOptions::new().trust(AUTHORITY).unwrap()
}

/// K2: events go to a receiver whose authority is trusted.
#[tokio::test]
async fn trusted_receiver_gets_the_event() {
    let (address, accepting) = receiver(LOCALHOST).await;

    let answers = publish(&sink(address, trusting()), &[event("01")]).await;

    assert_eq!(answers, [Ok(())]);
    assert_eq!(accepting.await.unwrap().as_deref(), Some("POST /hooks HTTP/1.1"));
}

/// K2: a receiver that nobody vouches for gets nothing.
#[tokio::test]
async fn receiver_that_cannot_be_trusted_gets_nothing() {
    let (address, accepting) = receiver(LOCALHOST).await;

    let error = error(&sink(address, HttpOptions::new()), event("01")).await;

    assert!(error.is_unavailable(), "{error:?}");
    assert!(error.to_string().contains("certificate"), "{error}");
    assert_eq!(accepting.await.unwrap(), None);
}

/// K2: nor does one that passes for another.
#[tokio::test]
async fn receiver_that_passes_for_another_gets_nothing() {
    let (address, accepting) = receiver(ANOTHER).await;

    let error = error(&sink(address, trusting()), event("01")).await;

    assert!(error.is_unavailable() && error.to_string().contains("certificate"), "{error:?}");
    assert_eq!(accepting.await.unwrap(), None);
}

/// K2: a look at the receiver makes the connection, TLS included, and sends nothing.
#[tokio::test]
async fn check_makes_the_connection_only() {
    let (address, accepting) = receiver(LOCALHOST).await;
    assert_eq!(sink(address, trusting()).check().await, []);
    assert_eq!(accepting.await.unwrap(), None);

    let (address, _accepting) = receiver(LOCALHOST).await;
    let findings = sink(address, HttpOptions::new()).check().await;
    assert_eq!(findings.len(), 1);
    assert!(!findings[0].is_refusal() && findings[0].text.contains("certificate"), "{}", findings[0]);
}
