//! A way to a server on which answers are lost and connections cut.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// How a [`Proxy`] treats connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Traffic {
    /// All passes.
    #[default]
    Flows,
    /// What clients say arrives, what the server answers is lost.
    LosesAnswers,
    /// Nothing passes in either direction, and connections stay open.
    Stands,
    /// Open connections are cut, and new ones too.
    Refused,
}

/// A TCP proxy before a server, on a port of its own on loopback. Dropped, it cuts everything.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    state: Arc<watch::Sender<State>>,
    listening: JoinHandle<()>,
}

#[derive(Clone, Copy, Debug, Default)]
struct State {
    traffic: Traffic,
    /// How often all connections were cut.
    cuts: u64,
}

impl Proxy {
    /// Leads to `server` from a free port.
    pub async fn to(server: SocketAddr) -> io::Result<Self> {
        Self::between(SocketAddr::from(([127, 0, 0, 1], 0)), server).await
    }

    /// Leads from `address` to `server`; for servers that tell their clients where to connect.
    pub async fn between(address: SocketAddr, server: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        let state = Arc::new(watch::Sender::new(State::default()));
        let listening = tokio::spawn(accept(listener, server, state.clone()));
        Ok(Self { address, state, listening })
    }

    /// Where clients connect.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Changes how connections are treated, those that are open included. Bytes that were lost stay lost.
    pub fn set(&self, traffic: Traffic) {
        self.state.send_modify(|state| {
            state.traffic = traffic;
            state.cuts += u64::from(traffic == Traffic::Refused);
        });
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.set(Traffic::Refused);
        self.listening.abort();
    }
}

async fn accept(listener: TcpListener, server: SocketAddr, state: Arc<watch::Sender<State>>) {
    while let Ok((client, _)) = listener.accept().await {
        if state.borrow().traffic != Traffic::Refused {
            tokio::spawn(connect(client, server, state.subscribe()));
        }
    }
}

/// Leads one connection until either end closes it, or it is cut.
async fn connect(client: TcpStream, server: SocketAddr, mut state: watch::Receiver<State>) {
    let (there, back) = (state.clone(), state.clone());
    // By the number of cuts: one that is over in a moment would be missed by looking at the traffic.
    let cuts = state.borrow().cuts;
    let is_cut = async move { state.wait_for(|state| state.cuts != cuts).await.map(drop) };
    let lead = async move {
        let Ok(server) = TcpStream::connect(server).await else { return };
        let (from_client, to_client) = client.into_split();
        let (from_server, to_server) = server.into_split();
        tokio::select! {
            () = pass(from_client, to_server, there, Way::There) => {}
            () = pass(from_server, to_client, back, Way::Back) => {}
        }
    };
    tokio::select! {
        _ = is_cut => {}
        () = lead => {}
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    There,
    Back,
}

async fn pass(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    mut state: watch::Receiver<State>,
    way: Way,
) {
    let mut bytes = vec![0; 65_536];
    while let Ok(count @ 1..) = from.read(&mut bytes).await {
        if state.wait_for(|state| state.traffic != Traffic::Stands).await.is_err() {
            return;
        }
        let is_lost = way == Way::Back && state.borrow().traffic == Traffic::LosesAnswers;
        if !is_lost && to.write_all(&bytes[..count]).await.is_err() {
            return;
        }
    }
}
