//! A receiver of webhooks.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri};
use tokio::task::JoinHandle;

/// What it got: the event's id and the length of the body.
type Received = Arc<Mutex<Vec<(String, usize)>>>;

/// Takes everything, but for what comes to `/refused`. It ends with this.
pub(crate) struct Receiver {
    pub(crate) address: SocketAddr,
    received: Received,
    serving: JoinHandle<()>,
}

impl Receiver {
    pub(crate) async fn start() -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, received) = (listener.local_addr().unwrap(), Received::default());
        let router = Router::new().fallback(receive).with_state(received.clone());
        let serving = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { address, received, serving }
    }

    /// How long the body of an event was.
    pub(crate) fn length_of(&self, id: &str) -> Option<usize> {
        self.received.lock().unwrap().iter().find(|(there, _)| there == id).map(|(_, length)| *length)
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn receive(State(received): State<Received>, uri: Uri, headers: HeaderMap, body: Bytes) -> StatusCode {
    if uri.path() == "/refused" {
        return StatusCode::UNAUTHORIZED;
    }
    let id = headers["event-id"].to_str().unwrap().to_owned();
    received.lock().unwrap().push((id, body.len()));
    StatusCode::NO_CONTENT
}
