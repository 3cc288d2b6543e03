//! A way to the server on which a trial sees what a store sends, and can stop it.

use std::sync::Arc;

use sqlx::mysql::{MySqlConnectOptions, MySqlSslMode};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Leads to `server` all that `goes_on` says yes to. The rest of a connection stops at the first no: that is how a
/// process looks that was stopped there.
pub(crate) async fn way_to(
    server: MySqlConnectOptions,
    goes_on: impl Fn(&[u8]) -> bool + Send + Sync + 'static,
) -> MySqlConnectOptions {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let place = format!("{}:{}", server.get_host(), server.get_port());
    let goes_on = Arc::new(goes_on);
    tokio::spawn(async move {
        loop {
            let (from_store, _) = listener.accept().await.unwrap();
            let to_server = TcpStream::connect(place.clone()).await.unwrap();
            tokio::spawn(pass_on(from_store, to_server, Arc::clone(&goes_on)));
        }
    });
    server.port(port).ssl_mode(MySqlSslMode::Disabled)
}

async fn pass_on(store: TcpStream, server: TcpStream, goes_on: Arc<impl Fn(&[u8]) -> bool>) {
    let (mut from_store, mut to_store) = store.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    tokio::spawn(async move { tokio::io::copy(&mut from_server, &mut to_store).await });
    let mut bytes = [0; 16_384];
    while let Ok(count @ 1..) = from_store.read(&mut bytes).await {
        if !goes_on(&bytes[..count]) {
            std::future::pending::<()>().await;
        }
        if to_server.write_all(&bytes[..count]).await.is_err() {
            return;
        }
    }
}
