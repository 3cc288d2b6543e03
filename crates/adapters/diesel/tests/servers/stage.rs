//! An outbox with names of its own, and connections of diesel-async.

use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use diesel::connection::InstrumentationEvent;
use diesel::result::Error;
use diesel_async::{AsyncConnection, AsyncMysqlConnection, AsyncPgConnection, SimpleAsyncConnection};
use pillarbox::{Event, Outbox, Receipt, Store, WriteError};
use pillarbox_diesel::{Dialect, Tables, write_in};
use pillarbox_mysql::MySqlStore;
use pillarbox_postgres::PostgresStore;
use pillarbox_testkit::adapters::{AdapterStage, End};
use pillarbox_testkit::servers::{Fresh, unique_name};
use sqlx::AssertSqlSafe;

const PREFIX: &str = "shop_";

pub(crate) type PostgresStage = Stage<AsyncPgConnection, PostgresStore>;
pub(crate) type MySqlStage = Stage<AsyncMysqlConnection, MySqlStore>;

pub(crate) struct Stage<C, S> {
    url: String,
    pub(crate) store: S,
    inserts: Arc<AtomicUsize>,
    /// What removes it.
    drop: String,
    connection: PhantomData<fn() -> C>,
}

/// How a transaction ended that was not to be committed.
enum Ending {
    Answered(Result<Receipt, WriteError>),
    Failed(Error),
}

impl From<Error> for Ending {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl Fresh for PostgresStage {
    async fn fresh(url: &str) -> Self {
        let schema = unique_name();
        // Without NOTIFY: only the receipt may wake the poller.
        let options = PostgresStore::options(url).schema(&schema).prefix(PREFIX).wake_up(false);
        let store = options.connect().await.unwrap();
        store.migrate().await.unwrap();
        Self::new(url, store, format!("DROP SCHEMA {schema} CASCADE"))
    }

    async fn clean(self) {
        self.store.close().await;
        self.connect().await.batch_execute(&self.drop).await.unwrap();
    }
}

impl Fresh for MySqlStage {
    async fn fresh(url: &str) -> Self {
        let schema = unique_name();
        let store = MySqlStore::options(url).schema(&schema).prefix(PREFIX).connect().await.unwrap();
        store.migrate().await.unwrap();
        Self::new(url, store, format!("DROP DATABASE {schema}"))
    }

    async fn clean(self) {
        self.store.close().await;
        self.connect().await.batch_execute(&self.drop).await.unwrap();
    }
}

impl MySqlStage {
    /// A user with the grants that the guide has for a writer, and the URL with which it connects.
    pub(crate) async fn create_writer(&self) -> (String, String) {
        let names = self.store.names();
        let user = format!("w{}", &unique_name()[3..]);
        let user = user[user.len().saturating_sub(30)..].to_owned();
        for sql in [
            format!("CREATE USER '{user}'@'%' IDENTIFIED BY 'seventeen'"),
            format!("GRANT INSERT ON {} TO '{user}'@'%'", names.table("outbox_event")),
            format!("GRANT SELECT ON {} TO '{user}'@'%'", names.table("outbox_meta")),
        ] {
            sqlx::query(AssertSqlSafe(sql)).execute(self.store.pool()).await.unwrap();
        }
        let place = self.url.rsplit_once('@').unwrap().1.split('/').next().unwrap();
        let url = format!("mysql://{user}:seventeen@{place}/{}", names.schema().unwrap());
        (user, url)
    }

    pub(crate) async fn drop_user(&self, user: &str) {
        let drop = AssertSqlSafe(format!("DROP USER '{user}'@'%'"));
        sqlx::query(drop).execute(self.store.pool()).await.unwrap();
    }
}

impl<C: AsyncConnection, S> Stage<C, S> {
    fn new(url: &str, store: S, drop: String) -> Self {
        Self { url: url.to_owned(), store, inserts: Arc::default(), drop, connection: PhantomData }
    }

    pub(crate) async fn connect(&self) -> C {
        let mut connection = C::establish(&self.url).await.unwrap();
        let counted = self.inserts.clone();
        connection.set_instrumentation(move |event: InstrumentationEvent<'_>| {
            if let InstrumentationEvent::StartQuery { query, .. } = event
                && query.to_string().starts_with("INSERT")
            {
                counted.fetch_add(1, Ordering::Relaxed);
            }
        });
        connection
    }
}

impl<C: AsyncConnection<Backend: Dialect>, S> Stage<C, S> {
    async fn write_to(
        &self,
        tables: &(impl Tables + Sync),
        events: Vec<Event>,
        end: End,
    ) -> Result<Receipt, WriteError> {
        let mut connection = self.connect().await;
        self.inserts.store(0, Ordering::Relaxed);
        let ended = connection.transaction(async |connection| {
            let answer = write_in(tables, connection, events).await;
            match end {
                End::Commit => Ok(answer),
                End::Rollback => Err(Ending::Answered(answer)),
            }
        });
        match ended.await {
            Ok(answer) | Err(Ending::Answered(answer)) => answer,
            Err(Ending::Failed(error)) => panic!("{error}"),
        }
    }
}

impl<C, S> AdapterStage for Stage<C, S>
where
    C: AsyncConnection<Backend: Dialect>,
    S: Store + Tables + ReadPartition + Clone,
{
    type Store = S;

    fn store(&self) -> S {
        self.store.clone()
    }

    async fn write(&self, events: Vec<Event>, end: End) -> Result<Receipt, WriteError> {
        self.write_to(self.store.names(), events, end).await
    }

    async fn write_through(&self, outbox: &Outbox<S>, events: Vec<Event>) -> Result<Receipt, WriteError> {
        self.write_to(outbox, events, End::Commit).await
    }

    fn statements(&self) -> usize {
        self.inserts.load(Ordering::Relaxed)
    }

    async fn partition(&self, event_id: &str) -> Option<u8> {
        let table = self.store.names().table("outbox_event");
        let sql = format!("SELECT event_partition FROM {table} WHERE event_id = '{event_id}'");
        self.store.partition(sql).await
    }
}

/// Reads a partition by the store's own driver.
pub(crate) trait ReadPartition {
    async fn partition(&self, sql: String) -> Option<u8>;
}

impl ReadPartition for PostgresStore {
    async fn partition(&self, sql: String) -> Option<u8> {
        let read = sqlx::query_scalar::<_, Option<i16>>(AssertSqlSafe(sql)).fetch_one(self.pool()).await;
        read.unwrap().map(|partition| partition.try_into().unwrap())
    }
}

impl ReadPartition for MySqlStore {
    async fn partition(&self, sql: String) -> Option<u8> {
        sqlx::query_scalar(AssertSqlSafe(sql)).fetch_one(self.pool()).await.unwrap()
    }
}
