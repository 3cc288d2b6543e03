//! Ports of this machine.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

/// How long it takes until the next attempt.
const PAUSE: Duration = Duration::from_millis(10);

/// A port on which nobody listens.
///
/// # Panics
/// If there is none.
pub fn free() -> u16 {
    let bound = TcpListener::bind(at(0)).and_then(|listener| listener.local_addr());
    bound.expect("this machine has a free port").port()
}

/// Connects to a port as soon as somebody listens there. After each attempt in vain `hope` is told for how long it has
/// been tried, and panics when there is none left.
pub fn reach(port: u16, mut hope: impl FnMut(Duration)) -> TcpStream {
    let begun = Instant::now();
    loop {
        if let Ok(stream) = TcpStream::connect(at(port))
            && !is_connected_to_itself(&stream).unwrap_or(true)
        {
            return stream;
        }
        hope(begun.elapsed());
        std::thread::sleep(PAUSE);
    }
}

/// Of many attempts one may come to have the very port that it leads to.
fn is_connected_to_itself(stream: &TcpStream) -> io::Result<bool> {
    Ok(stream.local_addr()? == stream.peer_addr()?)
}

fn at(port: u16) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, port))
}
