//! The connection: made when it is needed, shared by all runs, made anew when it is lost.

use std::collections::HashSet;
use std::io;
use std::net::{Shutdown, TcpStream};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use lapin::options::{ConfirmSelectOptions, ExchangeDeclareOptions, QueueDeclareOptions};
use lapin::tcp::{AsyncTcpStream, TLSConfig};
use lapin::types::{FieldTable, ShortString};
use lapin::uri::{AMQPScheme, AMQPUri};
use lapin::{Channel, Connection, ConnectionProperties, ExchangeKind};
use tokio::time::timeout;

use crate::RabbitMqOptions;
use crate::fault::Fault;

/// The client never forgets that a channel of some number was closed by the server, and refuses the next channel that
/// gets the number. Numbers are given upwards, and this is far below the highest.
const LAST_CHANNEL: u16 = 1_000;

/// The one connection of a sink.
pub(crate) struct Links {
    uri: AMQPUri,
    ca_file: Option<PathBuf>,
    name: String,
    patience: Duration,
    state: tokio::sync::Mutex<State>,
    /// How often connecting was tried.
    tries: AtomicU64,
}

#[derive(Default)]
struct State {
    link: Option<Arc<Link>>,
    /// Why the last try failed.
    fault: Option<Fault>,
}

impl Links {
    pub(crate) fn new(options: &RabbitMqOptions) -> Self {
        Self {
            uri: options.uri.clone(),
            ca_file: options.ca_file.clone(),
            name: options.connection_name.clone(),
            patience: options.connect_timeout,
            state: tokio::sync::Mutex::default(),
            tries: AtomicU64::new(0),
        }
    }

    /// The connection. Those who wait while another fails to make it get the same answer: a queue of workers before a
    /// dead server takes no longer than one.
    pub(crate) async fn current(&self) -> Result<Arc<Link>, Fault> {
        let seen = self.tries.load(Ordering::Relaxed);
        let mut state = self.state.lock().await;
        if let Some(link) = state.link.as_ref().filter(|link| link.is_usable()) {
            return Ok(link.clone());
        }
        if let Some(fault) = state.fault.clone().filter(|_| self.tries.load(Ordering::Relaxed) != seen) {
            return Err(fault);
        }
        state.link = None;
        let made = self.connect().await;
        self.tries.fetch_add(1, Ordering::Relaxed);
        state.fault = made.as_ref().err().cloned();
        let link = Arc::new(made?);
        state.link = Some(link.clone());
        Ok(link)
    }

    async fn connect(&self) -> Result<Link, Fault> {
        let socket = Socket::default();
        let abandoned = CutOnDrop(Some(socket.clone()));
        let connection = timeout(self.patience, self.connection(socket.clone()))
            .await
            .map_err(|_| Fault::silent(&self.uri, self.patience))?
            .map_err(|error| Fault::connecting(&self.uri, &error))?;
        abandoned.keep();
        Ok(Link {
            connection,
            socket,
            patience: self.patience,
            idle: Mutex::default(),
            exchanges: Mutex::default(),
            is_worn: AtomicBool::new(false),
            cut: OnceLock::new(),
        })
    }

    /// Connects and logs in, in a thread of the client's; the socket can be cut from here meanwhile.
    async fn connection(&self, socket: Socket) -> lapin::Result<Connection> {
        let (ca_file, patience) = (self.ca_file.clone(), self.patience);
        let properties = ConnectionProperties::default().with_connection_name(self.name.as_str().into());
        let runtime = lapin::runtime::default_runtime()?;
        let uri = self.uri.clone();
        let connecting = Connection::connector(
            uri,
            runtime,
            async move |uri, runtime| {
                let open = async {
                    let host = (uri.authority.host.clone(), uri.authority.port);
                    let stream = AsyncTcpStream::connect(&runtime, runtime.to_socket_addrs(host)).await?;
                    if let AsyncTcpStream::Plain(plain) = &stream {
                        let plain = plain.get_ref();
                        plain.set_nodelay(true)?;
                        socket.hold(TcpStream::from(plain.as_fd().try_clone_to_owned()?))?;
                    }
                    match uri.scheme {
                        AMQPScheme::AMQP => Ok(stream),
                        AMQPScheme::AMQPS => {
                            let authorities = ca_file.as_deref().map(read).transpose()?;
                            let tls = TLSConfig { identity: None, cert_chain: authorities.as_deref() };
                            stream.into_tls(&uri.authority.host, tls).await
                        }
                    }
                };
                let opened = timeout(patience, open).await;
                opened.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())).map_err(lapin::Error::from)
            },
            properties,
        );
        connecting.await
    }
}

/// Reads a file, in the client's thread, which may wait.
fn read(path: &Path) -> io::Result<String> {
    let unreadable = |error: io::Error| {
        io::Error::new(io::ErrorKind::InvalidData, format!("`{}` cannot be read: {error}", path.display()))
    };
    std::fs::read_to_string(path).map_err(unreadable)
}

/// A connection that stands, or did.
pub(crate) struct Link {
    connection: Connection,
    socket: Socket,
    patience: Duration,
    /// Channels on which nothing is under way.
    idle: Mutex<Vec<Channel>>,
    /// Exchanges that are known to exist.
    exchanges: Mutex<HashSet<ShortString>>,
    /// No new runs: its numbers of channels are used up.
    is_worn: AtomicBool,
    /// Why we ended it, if we did.
    cut: OnceLock<&'static str>,
}

impl Link {
    fn is_usable(&self) -> bool {
        self.connection.status().connected()
            && self.cut.get().is_none()
            && !self.is_worn.load(Ordering::Relaxed)
    }

    /// Whether the server has stopped to take events, for lack of memory or disk.
    pub(crate) fn is_blocked(&self) -> bool {
        self.connection.status().blocked()
    }

    pub(crate) fn frame_max(&self) -> u32 {
        self.connection.configuration().frame_max()
    }

    /// Ends the connection at once: what was not sent will not be sent.
    pub(crate) fn cut(&self, why: &'static str) {
        let _ = self.cut.set(why);
        self.socket.cut();
    }

    /// Why we ended it, if we did.
    pub(crate) fn why_cut(&self) -> Option<&'static str> {
        self.cut.get().copied()
    }

    /// A channel with confirms, for one run: two that share one could not tell whose confirm is whose.
    pub(crate) async fn channel(&self) -> Result<Channel, Fault> {
        loop {
            let Some(idle) = locked(&self.idle).pop() else { break };
            if idle.status().connected() {
                return Ok(idle);
            }
        }
        let channel = self.new_channel().await?;
        self.within(channel.confirm_select(ConfirmSelectOptions::default())).await?;
        Ok(channel)
    }

    /// Takes back a channel on which everything was confirmed.
    pub(crate) fn give_back(&self, channel: Channel) {
        locked(&self.idle).push(channel);
    }

    /// Finds out whether an exchange exists, on a channel of its own: asking for one that does not closes it.
    pub(crate) async fn find_exchange(&self, exchange: &ShortString) -> Result<(), Fault> {
        if exchange.as_str().is_empty() || locked(&self.exchanges).contains(exchange) {
            return Ok(());
        }
        let channel = self.new_channel().await?;
        let passive = ExchangeDeclareOptions { passive: true, ..ExchangeDeclareOptions::default() };
        let arguments = FieldTable::default();
        self.within(channel.exchange_declare(exchange.clone(), ExchangeKind::Direct, passive, arguments))
            .await?;
        locked(&self.exchanges).insert(exchange.clone());
        Ok(())
    }

    /// The exchanges are looked for again, for one of them was taken away.
    pub(crate) fn forget_exchanges(&self) {
        locked(&self.exchanges).clear();
    }

    /// Finds out whether a queue exists.
    pub(crate) async fn find_queue(&self, queue: &ShortString) -> Result<(), Fault> {
        let channel = self.new_channel().await?;
        let passive = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
        self.within(channel.queue_declare(queue.clone(), passive, FieldTable::default())).await?;
        Ok(())
    }

    async fn new_channel(&self) -> Result<Channel, Fault> {
        let channel = self.within(self.connection.create_channel()).await?;
        if channel.id() >= LAST_CHANNEL {
            self.is_worn.store(true, Ordering::Relaxed);
        }
        Ok(channel)
    }

    /// Asks the server; one that does not answer in time is given up with its connection.
    async fn within<T>(&self, asked: impl Future<Output = lapin::Result<T>>) -> Result<T, Fault> {
        match timeout(self.patience, asked).await {
            Ok(answer) => answer.map_err(|error| Fault::asking(&error)),
            Err(_) => {
                self.cut("the server did not answer");
                Err(Fault::unanswered(self.patience))
            }
        }
    }
}

/// A second handle of the connection's socket. The client has no way to end a connection whose server is silent: its
/// thread would wait for ever.
#[derive(Clone, Default)]
struct Socket(Arc<Mutex<Held>>);

#[derive(Default)]
enum Held {
    #[default]
    Nothing,
    Stream(TcpStream),
    /// It was given up, perhaps before it was there.
    Cut,
}

impl Socket {
    fn hold(&self, stream: TcpStream) -> io::Result<()> {
        let mut held = locked(&self.0);
        if matches!(*held, Held::Cut) {
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        *held = Held::Stream(stream);
        Ok(())
    }

    fn cut(&self) {
        if let Held::Stream(stream) = std::mem::replace(&mut *locked(&self.0), Held::Cut) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

/// Ends a connection that nobody waits for any more.
struct CutOnDrop(Option<Socket>);

impl CutOnDrop {
    fn keep(mut self) {
        self.0 = None;
    }
}

impl Drop for CutOnDrop {
    fn drop(&mut self) {
        if let Some(socket) = &self.0 {
            socket.cut();
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
