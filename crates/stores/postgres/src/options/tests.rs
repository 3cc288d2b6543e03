//! What is said of servers that cannot be had, told by servers that are none.

use std::time::Duration;

use pillarbox::store::StoreError;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

use crate::PostgresStore;

/// A server that does `answer` with every connection, and the URL of a database there.
async fn server<A: Future<Output = ()> + Send + 'static>(answer: fn(TcpStream) -> A) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(answer(stream));
        }
    });
    format!("postgres://shop:seventeen@127.0.0.1:{port}/shop")
}

async fn refused(url: String) -> StoreError {
    let connecting = PostgresStore::options(url).connect_timeout(Duration::from_millis(200)).connect();
    let error = timeout(Duration::from_secs(5), connecting).await.expect("it ends in time").unwrap_err();
    assert!(!format!("{error} {error:?}").contains("seventeen"), "{error:?}");
    error
}

/// A host that takes the connection and says nothing is given up after the connect timeout.
#[tokio::test]
async fn a_silent_server_is_given_up() {
    let url = server(|stream| async move {
        tokio::time::sleep(Duration::from_secs(60)).await;
        drop(stream);
    });

    let error = refused(url.await).await;

    assert!(error.is_transient() && error.to_string().contains("did not answer within 200ms"), "{error}");
}

/// A port at which nobody listens, and a name that nobody has, are said to be unreachable.
#[tokio::test]
async fn an_unreachable_server_is_named() {
    let free = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();

    let closed = refused(format!("postgres://shop:seventeen@{free}/shop")).await;
    let unknown = refused("postgres://shop:seventeen@no-such-host.invalid/shop".into()).await;

    assert!(
        closed.is_transient() && closed.to_string().contains(&format!("`{free}` cannot be reached")),
        "{closed}"
    );
    assert!(unknown.is_transient(), "{unknown:?}");
    assert!(unknown.to_string().contains("`no-such-host.invalid:5432`"), "{unknown}");
}

/// A server without TLS is refused where TLS is asked for.
#[tokio::test]
async fn missing_tls_is_named() {
    let url = server(|mut stream| async move {
        let mut request = [0; 8];
        let _ = stream.read_exact(&mut request).await;
        let _ = stream.write_all(b"N").await;
    });

    let error = refused(format!("{}?sslmode=require", url.await)).await;

    assert!(!error.is_transient() && error.to_string().contains("no encrypted connection"), "{error}");
}
