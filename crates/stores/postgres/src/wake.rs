//! Hearing that another process wrote events, and telling others.

use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::Duration;

use pillarbox::BoxFuture;
use pillarbox::store::{StoreError, WakeUp};
use sqlx::Row;
use sqlx::postgres::{PgListener, PgPool, PgPoolOptions};
use tokio::sync::{Notify, watch};
use tokio::time::timeout;

use crate::PostgresStore;
use crate::lane::Line;
use crate::store::Inner;

/// Pause before a lost LISTEN is set up again.
const AGAIN_AFTER: Duration = Duration::from_secs(1);

/// A connection that hears nothing for this long is asked whether it is still there.
const ASK_EVERY: Duration = Duration::from_secs(30);

impl WakeUp for PostgresStore {
    /// Completes when another store may have announced events since the last call, and once when LISTEN has been
    /// set up, at first or again. Never behind a pooler, or if `wake_up` is off.
    fn changed(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let Some(listening) = &self.inner.listening else { return std::future::pending().await };
            listening.begin(&self.inner);
            listening.news.notified().await;
        })
    }

    /// Sends a NOTIFY, on a connection of the store's own.
    fn announce(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            if self.inner.listening.is_none() {
                return;
            }
            if let Err(error) = self.notify().await {
                tracing::debug!(%error, "other processes could not be notified; they will find the events by polling");
            }
        })
    }
}

impl PostgresStore {
    async fn notify(&self) -> Result<(), StoreError> {
        let Some(listening) = &self.inner.listening else { return Ok(()) };
        let Some(channel) = channel(self).await? else { return Ok(()) };
        let (inner, mark) = (Arc::clone(&self.inner), listening.mark.clone());
        let notified = self.run(
            |inner| &inner.hot,
            move |connection| {
                let query = sqlx::query("SELECT pg_notify($1, $2)").persistent(!inner.line.pooled);
                let query = query.bind(channel.clone()).bind(mark.clone());
                Box::pin(query.execute(connection))
            },
        );
        notified.await.map(drop)
    }
}

/// The channel of this outbox, named after its table; `None` as long as there is none.
async fn channel(store: &PostgresStore) -> Result<Option<String>, StoreError> {
    let Some(listening) = &store.inner.listening else { return Ok(None) };
    if let Some(channel) = listening.channel.get() {
        return Ok(Some(channel.clone()));
    }
    let inner = Arc::clone(&store.inner);
    let found = store.run(
        |inner| &inner.hot,
        move |connection| Box::pin(inner.query(&inner.statements.channel).fetch_optional(connection)),
    );
    let Some(row) = found.await? else { return Ok(None) };
    let channel: String = row.try_get(0).map_err(|error| store.inner.line.place.store(error))?;
    Ok(Some(listening.channel.get_or_init(|| channel).clone()))
}

/// The ear of a store.
pub(crate) struct Listening {
    /// What this store's own notifications carry.
    mark: String,
    channel: OnceLock<String>,
    news: Notify,
    /// Whether the task runs that listens; it ends when this is dropped or says true.
    closed: Mutex<Option<watch::Sender<bool>>>,
    pool: PgPool,
}

impl Listening {
    /// An ear that hears nothing yet.
    pub(crate) fn new(line: &Line) -> Self {
        let pool = PgPoolOptions::new()
            .max_connections(1)
            .acquire_timeout(line.connect_timeout)
            .max_lifetime(None)
            .idle_timeout(None)
            .connect_lazy_with(line.options.clone());
        Self {
            mark: random_mark(),
            channel: OnceLock::new(),
            news: Notify::new(),
            closed: Mutex::new(None),
            pool,
        }
    }

    /// Starts to listen, if nobody did.
    fn begin(&self, inner: &Arc<Inner>) {
        let mut closed = self.closed.lock().unwrap_or_else(PoisonError::into_inner);
        if closed.is_none() {
            let (close, is_closed) = watch::channel(false);
            tokio::spawn(listen(Arc::downgrade(inner), self.pool.clone(), is_closed));
            *closed = Some(close);
        }
    }

    /// Stops listening for good.
    pub(crate) fn close(&self) {
        let mut closed = self.closed.lock().unwrap_or_else(PoisonError::into_inner);
        closed.get_or_insert_with(|| watch::channel(true).0).send_replace(true);
    }
}

/// Listens until the store is closed or dropped.
async fn listen(store: Weak<Inner>, pool: PgPool, mut is_closed: watch::Receiver<bool>) {
    let mut is_failing = false;
    let hear = async {
        loop {
            let Err(error) = hear(&store, &pool, &mut is_failing).await else { return };
            if !std::mem::replace(&mut is_failing, true) {
                tracing::warn!(%error, "LISTEN is not to be had; events of other processes wait for the poll");
            }
            tokio::time::sleep(AGAIN_AFTER).await;
        }
    };
    tokio::select! {
        biased;
        _ = is_closed.wait_for(|closed| *closed) => {}
        () = hear => {}
    }
    pool.close().await;
}

/// Passes notifications of others on, until the connection is lost; `Ok` when the store is gone.
async fn hear(store: &Weak<Inner>, pool: &PgPool, is_failing: &mut bool) -> Result<(), StoreError> {
    let Some(inner) = store.upgrade() else { return Ok(()) };
    let place = inner.line.place.clone();
    let channel = match channel(&PostgresStore { inner }).await? {
        Some(channel) => channel,
        None => return Err(StoreError::NotMigrated),
    };
    let fault = |error| place.connect(error);
    let mut listener = PgListener::connect_with(pool).await.map_err(fault)?;
    listener.eager_reconnect(false);
    listener.listen(&channel).await.map_err(fault)?;
    *is_failing = false;
    loop {
        let Some(inner) = store.upgrade() else { return Ok(()) };
        let Some(listening) = &inner.listening else { return Ok(()) };
        listening.news.notify_one();
        let mark = listening.mark.clone();
        drop(inner);
        while next(&mut listener).await.map_err(fault)? == mark {}
    }
}

/// The next notification's content. A connection that is silent is asked whether it is still there.
async fn next(listener: &mut PgListener) -> Result<String, sqlx::Error> {
    loop {
        match timeout(ASK_EVERY, listener.try_recv()).await {
            Ok(Ok(Some(notification))) => return Ok(notification.payload().to_owned()),
            Ok(Ok(None)) => return Err(sqlx::Error::Io(std::io::ErrorKind::ConnectionAborted.into())),
            Ok(Err(error)) => return Err(error),
            Err(_) => {
                let asked =
                    timeout(ASK_EVERY, sqlx::query("SELECT 1").persistent(false).execute(&mut *listener));
                asked.await.map_err(|_| sqlx::Error::Io(std::io::ErrorKind::TimedOut.into()))??;
            }
        }
    }
}

/// What no other store has: 64 random bits.
fn random_mark() -> String {
    use std::hash::{BuildHasher, Hasher};
    format!("{:016x}", std::collections::hash_map::RandomState::new().build_hasher().finish())
}
