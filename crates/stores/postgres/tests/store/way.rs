//! A way to the server on which a trial counts connections, and lets the server fall silent.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// Leads to a server, until it is told not to.
pub(crate) struct Way {
    pub(crate) url: String,
    /// How often the server fell silent, and how often it spoke again.
    silences: watch::Sender<(usize, usize)>,
    connections: Arc<AtomicUsize>,
}

impl Way {
    /// A way to the database at `url`.
    pub(crate) async fn to(url: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (before, rest) = url.split_once('@').unwrap();
        let (place, database) = rest.split_once('/').unwrap();
        let (silences, heard) = watch::channel((0, 0));
        let connections = Arc::<AtomicUsize>::default();
        let url = format!("{before}@127.0.0.1:{port}/{database}");
        let (place, counted) = (place.to_owned(), Arc::clone(&connections));
        tokio::spawn(async move {
            while let Ok((store, _)) = listener.accept().await {
                counted.fetch_add(1, Ordering::Relaxed);
                let server = TcpStream::connect(&place).await.unwrap();
                tokio::spawn(pass_on(store, server, heard.clone()));
            }
        });
        Self { url, silences, connections }
    }

    /// From now on no answer comes, as from a server that was stopped: on connections that there are never again, on
    /// new ones not before it [speaks again](Self::speak_again).
    pub(crate) fn fall_silent(&self) {
        self.silences.send_modify(|(fell_silent, _)| *fell_silent += 1);
    }

    /// New connections are answered; the server has given the silent ones up.
    pub(crate) fn speak_again(&self) {
        self.silences.send_modify(|(fell_silent, spoke)| *spoke = *fell_silent);
    }

    /// How many connections were made so far.
    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }
}

/// Carries what both say, until a silence falls that was not there from the beginning or is over.
async fn pass_on(mut store: TcpStream, mut server: TcpStream, mut silences: watch::Receiver<(usize, usize)>) {
    let before = silences.borrow().1;
    let falls_silent = tokio::select! {
        biased;
        silent = silences.wait_for(|(fell_silent, _)| *fell_silent > before) => silent.is_ok(),
        _ = tokio::io::copy_bidirectional(&mut store, &mut server) => false,
    };
    if falls_silent {
        let _ = silences.wait_for(|(_, spoke)| *spoke > before).await;
        drop(server);
        std::future::pending::<()>().await;
    }
}
