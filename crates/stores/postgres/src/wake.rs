//! Hearing that another process wrote events, and telling others.

mod content;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

use pillarbox::store::{StoreError, WakeUp};
use pillarbox::{BoxFuture, PartitionSet};
use pillarbox_sql::Ears;
use sqlx::Row;
use sqlx::postgres::{PgListener, PgPool, PgPoolOptions};
use tokio::sync::watch;
use tokio::time::timeout;

use self::content::Content;
use crate::PostgresStore;
use crate::fault::Place;
use crate::store::Inner;

/// Pause before a lost LISTEN is set up again.
const AGAIN_AFTER: Duration = Duration::from_secs(1);

/// A connection that hears nothing for this long is asked whether it is still there.
const ASK_EVERY: Duration = Duration::from_secs(30);

impl WakeUp for PostgresStore {
    /// Completes when another store, or another clone of this one, may have announced events since the last call,
    /// and once for all partitions when LISTEN has been set up, at first or again. Behind a pooler only clones are
    /// heard; nobody is, if `wake_up` is off.
    fn changed(&self) -> BoxFuture<'_, PartitionSet> {
        Box::pin(async move {
            let Some(hints) = &self.inner.hints else { return std::future::pending().await };
            if !self.inner.line.pooled {
                hints.listen(&self.inner);
            }
            // Who asks for the first time may have missed something, if others listen already.
            if hints.ears.admit(&self.ear) && hints.is_listening.load(Ordering::SeqCst) {
                self.ear.tell(PartitionSet::ALL);
            }
            self.ear.heard().await
        })
    }

    /// Wakes clones of this store, and sends a NOTIFY on a connection of the store's own; unless `wake_up` is off.
    fn announce(&self, partitions: PartitionSet) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let Some(hints) = &self.inner.hints else { return };
            hints.ears.tell_others(&self.ear, partitions);
            if let Err(error) = self.notify(hints, partitions).await {
                tracing::debug!(%error, "other processes could not be notified; they will find the events by polling");
            }
        })
    }
}

impl PostgresStore {
    async fn notify(&self, hints: &Hints, partitions: PartitionSet) -> Result<(), StoreError> {
        let Some(channel) = channel(self, hints).await? else { return Ok(()) };
        let (inner, content) = (Arc::clone(&self.inner), content::write(&hints.mark, partitions));
        let notified = self.run(
            |inner| &inner.hot,
            move |connection| {
                let query = sqlx::query("SELECT pg_notify($1, $2)").persistent(!inner.line.pooled);
                let query = query.bind(channel.clone()).bind(content.clone());
                Box::pin(query.execute(connection))
            },
        );
        notified.await.map(drop)
    }
}

/// The channel of this outbox, named after its table; `None` as long as there is none.
async fn channel(store: &PostgresStore, hints: &Hints) -> Result<Option<String>, StoreError> {
    if let Some(channel) = hints.channel.get() {
        return Ok(Some(channel.clone()));
    }
    let inner = Arc::clone(&store.inner);
    let found = store.run(
        |inner| &inner.hot,
        move |connection| Box::pin(inner.query(&inner.statements.channel).fetch_optional(connection)),
    );
    let Some(row) = found.await? else { return Ok(None) };
    let channel: String = row.try_get(0).map_err(|error| store.inner.line.place.store(error))?;
    Ok(Some(hints.channel.get_or_init(|| channel).clone()))
}

/// How a store tells and hears.
pub(crate) struct Hints {
    /// What this store's own notifications carry: its clones have been told already.
    mark: String,
    channel: OnceLock<String>,
    ears: Ears,
    /// Whether LISTEN is set up.
    is_listening: AtomicBool,
    listening: Mutex<Listening>,
}

/// Whether a task runs that listens.
#[derive(Default)]
enum Listening {
    #[default]
    Not,
    /// Until this is dropped.
    Runs { _until: watch::Sender<()> },
    /// And none will any more.
    Closed,
}

impl Hints {
    /// Nothing is told or heard yet.
    pub(crate) fn new() -> Self {
        let mark = random_mark();
        Self {
            mark,
            channel: OnceLock::new(),
            ears: Ears::default(),
            is_listening: AtomicBool::new(false),
            listening: Mutex::default(),
        }
    }

    /// Starts to listen, if nobody does. The task lives no longer than the runtime of who asks first; when that ends,
    /// all are woken, and the next who asks starts another.
    fn listen(&self, inner: &Arc<Inner>) {
        let mut listening = self.listening();
        if matches!(*listening, Listening::Not) {
            let (until, ended) = watch::channel(());
            *listening = Listening::Runs { _until: until };
            // A runtime that is gone drops the task here and now, and with it what waits for the lock.
            drop(listening);
            let end = End { store: Arc::downgrade(inner), has_begun: false };
            tokio::spawn(listen(end, ended));
        }
    }

    fn listening(&self) -> MutexGuard<'_, Listening> {
        self.listening.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// LISTEN is set up, or is not any more.
    fn note_listening(&self, is_listening: bool) {
        self.is_listening.store(is_listening, Ordering::SeqCst);
    }

    /// Stops listening for good.
    pub(crate) fn close(&self) {
        *self.listening() = Listening::Closed;
    }
}

/// Says that the task that listened has ended, however that came: its runtime may be gone while others wait on another.
struct End {
    store: Weak<Inner>,
    has_begun: bool,
}

impl Drop for End {
    fn drop(&mut self) {
        with_hints(&self.store, |hints| {
            hints.note_listening(false);
            let mut listening = hints.listening();
            if matches!(*listening, Listening::Closed) {
                return;
            }
            *listening = Listening::Not;
            // Where it could not even begin, whoever is woken would only try the same again.
            if self.has_begun {
                hints.ears.tell_all(PartitionSet::ALL);
            }
        });
    }
}

/// Does something with the hints of a store; false if the store is gone. It is not held for longer, so that a store
/// that is dropped ends.
fn with_hints(store: &Weak<Inner>, work: impl FnOnce(&Hints)) -> bool {
    let Some(inner) = store.upgrade() else { return false };
    inner.hints.as_ref().map(work).is_some()
}

/// Listens until the store is closed or dropped.
async fn listen(mut end: End, mut ended: watch::Receiver<()>) {
    end.has_begun = true;
    let store = Weak::clone(&end.store);
    let mut is_failing = false;
    let hear = async {
        loop {
            let Err(error) = hear(&store, &mut is_failing).await else { return };
            with_hints(&store, |hints| hints.note_listening(false));
            if !std::mem::replace(&mut is_failing, true) {
                tracing::warn!(%error, "LISTEN is not to be had; events of other processes wait for the poll");
            }
            tokio::time::sleep(AGAIN_AFTER).await;
        }
    };
    tokio::select! {
        biased;
        // Nothing is ever sent: it ends with its sender.
        _ = ended.changed() => {}
        () = hear => {}
    }
}

/// Passes notifications of others on, until the connection is lost; `Ok` when the store is gone.
async fn hear(store: &Weak<Inner>, is_failing: &mut bool) -> Result<(), StoreError> {
    let Some(Post { place, channel, mark, pool }) = post(store).await? else { return Ok(()) };
    let fault = |error| place.connect(error);
    let mut listener = PgListener::connect_with(&pool).await.map_err(fault)?;
    listener.eager_reconnect(false);
    listener.listen(&channel).await.map_err(fault)?;
    *is_failing = false;
    with_hints(store, |hints| hints.note_listening(true));
    // What was notified before is lost.
    let mut news = PartitionSet::ALL;
    while with_hints(store, |hints| hints.ears.tell_all(news)) {
        news = loop {
            let content = next(&mut listener).await.map_err(fault)?;
            let Content { sender, partitions } = content::read(&content);
            if sender != mark {
                break partitions;
            }
        };
    }
    Ok(())
}

/// Where to listen, and on which connection.
struct Post {
    place: Place,
    channel: String,
    /// Of notifications to pass by.
    mark: String,
    /// Of one connection, and anew for each try: one that died silently would keep its place in it.
    pool: PgPool,
}

/// `None` if the store is gone.
async fn post(store: &Weak<Inner>) -> Result<Option<Post>, StoreError> {
    let Some(inner) = store.upgrade() else { return Ok(None) };
    let store = PostgresStore::new(inner);
    let Some(hints) = &store.inner.hints else { return Ok(None) };
    let channel = channel(&store, hints).await?.ok_or(StoreError::NotMigrated)?;
    let line = &store.inner.line;
    let pool = PgPoolOptions::new().max_connections(1).acquire_timeout(line.connect_timeout);
    let pool = pool.max_lifetime(None).idle_timeout(None).connect_lazy_with(line.options.clone());
    Ok(Some(Post { place: line.place.clone(), channel, mark: hints.mark.clone(), pool }))
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
