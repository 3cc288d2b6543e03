//! Receivers that die, are slow, or hang up.

use std::sync::Arc;
use std::time::Duration;

use pillarbox_http::HttpOptions;
use pillarbox_message::Messages;
use tokio::io::AsyncReadExt;
use tokio::net::TcpListener;

use crate::receiver::{Receiver, sink};
use crate::{error, event, publish};

/// T5: a receiver that was killed is down and nothing more; when it is back, events arrive again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn receiver_that_was_killed_is_found_again() {
    let receiver = Receiver::accepting().await;
    let sink = receiver.sink(HttpOptions::new());
    assert_eq!(publish(&sink, &[event("before")]).await, [Ok(())]);

    receiver.kill().await;
    // The connection of before may be tried first: whether its end was noticed in time is a matter of chance.
    let first = error(&sink, event("meanwhile")).await;
    let error = error(&sink, event("meanwhile")).await;
    receiver.restart();
    let after = publish(&sink, &[event("after")]).await;

    assert!(first.is_unavailable() || first.is_unknown(), "{first:?}");
    assert!(error.is_unavailable(), "{error:?}");
    let text = format!("cannot connect to `http://{}`: Connection refused", receiver.address());
    assert!(error.to_string().starts_with(&text), "{error}");
    assert_eq!(after, [Ok(())]);
    assert_eq!(receiver.ids(), ["before", "after"]);
}

/// Guarantee 3: a receiver that dies over an event may have it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn receiver_that_dies_over_an_event_may_have_it() {
    let (arrived, mut arrivals) = tokio::sync::mpsc::unbounded_channel();
    let receiver = Receiver::answering(move |_| {
        arrived.send(()).unwrap();
        Box::pin(std::future::pending())
    })
    .await;
    let sink = receiver.sink(HttpOptions::new());

    let kill = async {
        arrivals.recv().await;
        receiver.kill().await;
    };
    let (error, ()) = tokio::join!(error(&sink, event("01")), kill);

    assert!(error.is_unknown(), "{error:?}");
    assert!(error.to_string().contains("was lost before the answer"), "{error}");
}

/// D10: no answer in time is no answer: it may have arrived.
#[tokio::test]
async fn slow_receiver_may_have_the_event() {
    let receiver = Receiver::answering(|_| Box::pin(std::future::pending())).await;
    let sink = receiver.sink(HttpOptions::new().request_timeout(Duration::from_millis(200)));

    let error = error(&sink, event("01")).await;

    assert!(error.is_unknown(), "{error:?}");
    let text = format!("`http://{}` did not answer within 200ms; it may have the event", receiver.address());
    assert_eq!(error.to_string(), text);
}

/// Guarantee 3: a connection that is closed without an answer leaves it open whether the event arrived.
#[tokio::test]
async fn receiver_that_hangs_up_may_have_the_event() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let hang_up = async {
        let (mut connection, _) = listener.accept().await.unwrap();
        let mut bytes = [0; 4_096];
        connection.read(&mut bytes).await.unwrap()
    };
    let sink = Arc::new(sink(address, Messages::from_source("/shop").unwrap(), HttpOptions::new()));

    let (error, read) = tokio::join!(error(&sink, event("01")), hang_up);

    assert!(read > 0);
    assert!(error.is_unknown(), "{error:?}");
}

/// T5: a name that nobody knows is a receiver that is down.
#[tokio::test]
async fn unknown_name_is_unavailable() {
    crate::receiver::install_tls();
    let url = "http://receiver.invalid/s3cret".parse().unwrap();
    let messages = Messages::from_source("/shop").unwrap();
    let sink = Arc::new(pillarbox_http::HttpSink::new(url, messages, HttpOptions::new()).unwrap());

    let error = error(&sink, event("01")).await;

    assert!(error.is_unavailable(), "{error:?}");
    assert!(error.to_string().starts_with("cannot connect to `http://receiver.invalid`: "), "{error}");
}
