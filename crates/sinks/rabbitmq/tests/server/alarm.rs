//! A server that blocks all who publish, as it does for lack of memory or disk.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use pillarbox::{Event, Sink};
use pillarbox_message::Messages;
use pillarbox_rabbitmq::{RabbitMqOptions, RabbitMqSink};
use pillarbox_testkit::sinks::{SinkStage, publish};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use crate::routing::order;
use crate::stage::RabbitMqStage;

/// `connection.blocked`, with `memory` as the reason.
const BLOCKED: &[u8] = b"\x01\0\0\0\0\0\x0b\0\x0a\0\x3c\x06memory\xce";
/// `connection.unblocked`.
const UNBLOCKED: &[u8] = b"\x01\0\0\0\0\0\x04\0\x0a\0\x3d\xce";

/// T5: a server that has blocked us is down for now: events are not sent, and cost no time limit.
pub(crate) async fn blocked_connection_is_unavailable(stage: &RabbitMqStage) {
    let way = Way::to(stage.server()).await;
    // With a routing key that is not constant there is nothing that a check would ask the server.
    let sink = RabbitMqSink::new(options(stage, way.address, "{header.queue}"));
    assert_eq!(sink.check().await, []);

    way.is_blocked.send_replace(true);
    while sink.check().await.is_empty() {
        tokio::task::yield_now().await;
    }
    let sink: Arc<dyn Sink> = Arc::new(sink);
    let event = Event::builder("OrderPlaced").header("queue", stage.here()).json_text("{}").build().unwrap();
    let error = publish(&sink, &[event]).await.remove(0).unwrap_err();

    assert!(error.is_unavailable(), "{error:?}");
    assert!(error.to_string().starts_with("RabbitMQ has blocked all who publish"), "{error}");
    assert_eq!(stage.arrived().await, []);
}

/// Guarantee 3: events that are on their way when the server blocks may have arrived; they are answered long before
/// their time is over.
pub(crate) async fn run_that_is_blocked_on_its_way_is_unknown(stage: &RabbitMqStage) {
    let way = Way::to(stage.server()).await;
    let sink: Arc<dyn Sink> = Arc::new(RabbitMqSink::new(options(stage, way.address, &stage.here())));
    assert_eq!(publish(&sink, &[order("before")]).await, [Ok(())]);

    way.is_blocked.send_replace(true);
    let events: Vec<Event> = (0..50).map(|number| order(format!("{number}"))).collect();
    let answers = publish(&sink, &events).await;
    way.is_blocked.send_replace(false);
    let again = async { while publish(&sink, &[order("after")]).await[0].is_err() {} };
    let after = tokio::time::timeout(Duration::from_secs(30), again).await;

    for error in answers.into_iter().map(Result::unwrap_err) {
        assert!(error.is_unknown() || error.is_unavailable(), "{error:?}");
        assert!(error.to_string().contains("RabbitMQ has blocked all who publish"), "{error}");
    }
    assert!(after.is_ok(), "it is still blocked");
}

fn options(stage: &RabbitMqStage, server: SocketAddr, routing_key: &str) -> RabbitMqOptions {
    let url = stage.url.replace(&stage.server().to_string(), &server.to_string());
    RabbitMqOptions::new(&url, routing_key.parse().unwrap(), Messages::from_source("/shop").unwrap()).unwrap()
}

/// A way to the server on which nothing comes back while it is blocked but the word that it is.
struct Way {
    address: SocketAddr,
    is_blocked: watch::Sender<bool>,
}

impl Way {
    async fn to(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, is_blocked) = (listener.local_addr().unwrap(), watch::Sender::new(false));
        let blocked = is_blocked.subscribe();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(lead(client, server, blocked.clone()));
            }
        });
        Self { address, is_blocked }
    }
}

async fn lead(client: TcpStream, server: SocketAddr, mut is_blocked: watch::Receiver<bool>) {
    let server = TcpStream::connect(server).await.unwrap();
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let there = async { tokio::io::copy(&mut from_client, &mut to_server).await.map(drop) };
    let back = async {
        let mut bytes = vec![0; 65_536];
        loop {
            tokio::select! {
                biased;
                // The client is idle, or waits for confirms that are kept back: this is between two frames.
                () = turns(&mut is_blocked, true) => {
                    to_client.write_all(BLOCKED).await?;
                    turns(&mut is_blocked, false).await;
                    to_client.write_all(UNBLOCKED).await?;
                }
                count = from_server.read(&mut bytes) => match count? {
                    0 => return Ok(()),
                    count => to_client.write_all(&bytes[..count]).await?,
                },
            }
        }
    };
    let _: std::io::Result<()> = tokio::select! {
        passed = there => passed,
        passed = back => passed,
    };
}

/// Waits until it is so; for ever, if nobody can change it any more.
async fn turns(is_blocked: &mut watch::Receiver<bool>, to: bool) {
    if is_blocked.wait_for(|is_blocked| *is_blocked == to).await.is_err() {
        std::future::pending().await
    }
}
