//! A receiver of webhooks, on a port of its own on loopback, that answers as it is told.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, Once};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Response};
use pillarbox::BoxFuture;
use pillarbox_http::{HttpOptions, HttpSink, PrivateAddresses};
use pillarbox_message::Messages;
use pillarbox_testkit::sinks::{Arrived, SOURCE, SinkStage};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

/// What the receiver got.
#[derive(Clone, Debug)]
pub(crate) struct Received {
    pub(crate) path: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
}

impl Received {
    pub(crate) fn id(&self) -> &str {
        self.header("event-id")
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }
}

type Answering = dyn Fn(Received) -> BoxFuture<'static, Response<Body>> + Send + Sync;

/// What outlives its death.
struct Memory {
    received: Mutex<Vec<Received>>,
    answer: Box<Answering>,
}

pub(crate) struct Receiver {
    address: SocketAddr,
    memory: Arc<Memory>,
    /// Of its own, so that it dies with all its connections.
    runtime: Mutex<Option<Runtime>>,
}

/// An answer with a status only.
pub(crate) fn status(status: u16) -> Response<Body> {
    Response::builder().status(status).body(Body::empty()).unwrap()
}

impl Receiver {
    /// One that accepts everything.
    pub(crate) async fn accepting() -> Self {
        Self::with_status(|_| 204).await
    }

    /// One that answers each event by a status.
    pub(crate) async fn with_status(choose: impl Fn(&Received) -> u16 + Send + Sync + 'static) -> Self {
        Self::answering(move |received| {
            let chosen = choose(&received);
            Box::pin(async move { status(chosen) })
        })
        .await
    }

    /// One that answers as `answer` says.
    pub(crate) async fn answering(
        answer: impl Fn(Received) -> BoxFuture<'static, Response<Body>> + Send + Sync + 'static,
    ) -> Self {
        let memory = Arc::new(Memory { received: Mutex::default(), answer: Box::new(answer) });
        let (address, runtime) = serve(SocketAddr::from(([127, 0, 0, 1], 0)), memory.clone());
        Self { address, memory, runtime: Mutex::new(Some(runtime)) }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Everything it got, in the order of arrival.
    pub(crate) fn received(&self) -> Vec<Received> {
        self.memory.received.lock().unwrap().clone()
    }

    pub(crate) fn ids(&self) -> Vec<String> {
        self.received().iter().map(|received| received.id().to_owned()).collect()
    }

    /// Ends it with all its connections, at once.
    pub(crate) async fn kill(&self) {
        let runtime = self.runtime.lock().unwrap().take().unwrap();
        let end = move || runtime.shutdown_timeout(Duration::from_secs(10));
        tokio::task::spawn_blocking(end).await.unwrap();
    }

    /// Starts it again on its port.
    pub(crate) fn restart(&self) {
        let (_, runtime) = serve(self.address, self.memory.clone());
        *self.runtime.lock().unwrap() = Some(runtime);
    }

    /// A sink to this receiver, with private addresses allowed.
    pub(crate) fn sink(&self, options: HttpOptions) -> Arc<HttpSink> {
        Arc::new(sink(self.address, Messages::from_source(SOURCE).unwrap(), options))
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.lock().unwrap().take() {
            runtime.shutdown_background();
        }
    }
}

/// A sink to `/hooks` of a server on loopback.
pub(crate) fn sink(server: SocketAddr, messages: Messages, options: HttpOptions) -> HttpSink {
    install_tls();
    let options = options.allow_private(PrivateAddresses::Allowed);
    HttpSink::new(format!("http://{server}/hooks").parse().unwrap(), messages, options).unwrap()
}

/// What a program does in its first line.
pub(crate) fn install_tls() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| rustls::crypto::ring::default_provider().install_default().unwrap());
}

fn serve(address: SocketAddr, memory: Arc<Memory>) -> (SocketAddr, Runtime) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let listener = std::net::TcpListener::bind(address).unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    let router = Router::new().fallback(receive).with_state(memory);
    runtime.spawn(async move {
        let listener = TcpListener::from_std(listener).unwrap();
        axum::serve(listener, router).await.unwrap();
    });
    (address, runtime)
}

async fn receive(State(memory): State<Arc<Memory>>, request: Request) -> Response<Body> {
    let (parts, body) = request.into_parts();
    assert_eq!(parts.method, "POST");
    let Ok(body) = to_bytes(body, usize::MAX).await else { return status(400) };
    let path = parts.uri.path_and_query().unwrap().to_string();
    let received = Received { path, headers: parts.headers, body: body.to_vec() };
    memory.received.lock().unwrap().push(received.clone());
    (memory.answer)(received).await
}

impl SinkStage for Receiver {
    async fn sink(&self, messages: Messages, server: Option<SocketAddr>) -> Arc<dyn pillarbox::Sink> {
        // The suite has its own patience; a busy machine is not what it is about.
        let long = Duration::from_secs(60);
        let options = HttpOptions::new().connect_timeout(long).request_timeout(long).send_for(long);
        Arc::new(sink(server.unwrap_or(self.address), messages, options))
    }

    fn server(&self) -> SocketAddr {
        self.address
    }

    async fn arrived(&self) -> Vec<Arrived> {
        self.arrived_at("/hooks")
    }

    fn elsewhere(&self) -> String {
        "/elsewhere".to_owned()
    }

    async fn arrived_elsewhere(&self) -> Vec<Arrived> {
        self.arrived_at("/elsewhere")
    }
}

impl Receiver {
    fn arrived_at(&self, path: &str) -> Vec<Arrived> {
        self.received().into_iter().filter(|received| received.path == path).map(arrived).collect()
    }
}

fn arrived(received: Received) -> Arrived {
    let (mut attributes, mut headers) = (BTreeMap::new(), BTreeMap::new());
    for (name, value) in &received.headers {
        let (name, value) = (name.as_str(), value.to_str().unwrap());
        match name.strip_prefix("ce-") {
            Some(attribute) => attributes.insert(attribute.to_owned(), decoded(value)),
            None => headers.insert(name.to_owned(), value.to_owned()),
        };
    }
    let mut take = |name: &str| headers.remove(name).unwrap_or_default();
    let (event_id, content_type) = (take("event-id"), take("content-type"));
    Arrived { event_id, key: None, content_type, attributes, headers, body: received.body }
}

fn decoded(value: &str) -> String {
    let mut pieces = value.split('%');
    let mut bytes = pieces.next().unwrap().as_bytes().to_vec();
    for piece in pieces {
        bytes.push(u8::from_str_radix(&piece[..2], 16).unwrap());
        bytes.extend_from_slice(&piece.as_bytes()[2..]);
    }
    String::from_utf8(bytes).unwrap()
}
