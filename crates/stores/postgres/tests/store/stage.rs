//! Where the tests play: a schema of its own for each.

use std::sync::Arc;

use pillarbox::{Event, Runtime};
use pillarbox_postgres::{PostgresOptions, PostgresStore};
use pillarbox_testkit::acceptance::Stage;
use pillarbox_testkit::conformance::{OwnershipHarness, StoreHarness};
use pillarbox_testkit::servers::{Fresh, unique_name};
use sqlx::postgres::{PgConnection, Postgres};
use sqlx::{AssertSqlSafe, Connection, Executor, Transaction};

/// A migrated outbox in a schema that is dropped with it.
pub(crate) struct PostgresStage {
    pub(crate) url: String,
    pub(crate) schema: String,
    pub(crate) store: Arc<PostgresStore>,
}

impl PostgresStage {
    /// A stage whose stores are connected as `change` says.
    pub(crate) async fn with(url: &str, change: impl FnOnce(PostgresOptions) -> PostgresOptions) -> Self {
        let schema = unique_name();
        let store = change(PostgresStore::options(url).schema(&schema)).connect().await.unwrap();
        store.migrate().await.unwrap();
        Self { url: url.to_owned(), schema, store: Arc::new(store) }
    }

    /// Options for another store on the same tables.
    pub(crate) fn options(&self) -> PostgresOptions {
        PostgresStore::options(&self.url).schema(&self.schema)
    }

    /// Another store on the same tables, whose sessions have the schema's name.
    pub(crate) async fn marked(&self) -> PostgresStore {
        let url = &self.url;
        let mark = format!("{}application_name={}", if url.contains('?') { "&" } else { "?" }, self.schema);
        let options = PostgresStore::options(format!("{url}{mark}")).schema(&self.schema);
        options.max_connections(1).connect().await.unwrap()
    }

    /// A connection of the user's own, which finds the tables without a schema.
    pub(crate) async fn connection(&self) -> PgConnection {
        let mut connection = PgConnection::connect(&self.url).await.unwrap();
        let schema = &self.schema;
        connection.execute(AssertSqlSafe(format!("SET search_path = {schema}"))).await.unwrap();
        connection
    }

    /// Executes statements on a connection of the user's own, and returns how many rows were affected.
    pub(crate) async fn execute(&self, sql: impl Into<String>) -> u64 {
        let sql = AssertSqlSafe(sql.into());
        sqlx::raw_sql(sql).execute(&mut self.connection().await).await.unwrap().rows_affected()
    }

    /// Makes a role that may log in, gives it what `grants` say, and returns its URL.
    pub(crate) async fn login(&self, role: &str, grants: &str) -> String {
        let password = unique_name();
        self.execute(format!("CREATE ROLE {role} LOGIN PASSWORD '{password}'; {grants}")).await;
        let (_, place) = self.url.split_once('@').unwrap();
        format!("postgres://{role}:{password}@{place}")
    }

    /// The same in a database of its own, where no transaction of other tests keeps row versions alive.
    pub(crate) async fn beside(&self) -> Self {
        let database = unique_name();
        self.execute(format!("CREATE DATABASE {database}")).await;
        let (server, _) = self.url.rsplit_once('/').unwrap();
        Self::fresh(&format!("{server}/{database}")).await
    }

    /// Two stages [beside](Self::beside) this one, in databases that are copies of each other: their tables have the same
    /// schema, and the same number inside the server.
    pub(crate) async fn twins_beside(&self) -> [Self; 2] {
        let (one, copy) = (self.beside().await, unique_name());
        one.store.close().await;
        let (server, original) = one.url.rsplit_once('/').unwrap();
        self.execute(format!("CREATE DATABASE {copy} TEMPLATE {original}")).await;
        [one.opened(&one.url).await, one.opened(&format!("{server}/{copy}")).await]
    }

    /// A stage with another store, on the tables of the same schema in the database of `url`.
    async fn opened(&self, url: &str) -> Self {
        let (url, schema) = (url.to_owned(), self.schema.clone());
        let store = PostgresStore::options(&url).schema(&schema).connect().await.unwrap();
        Self { url, schema, store: Arc::new(store) }
    }

    /// Drops the database of a stage [beside](Self::beside) this one.
    pub(crate) async fn drop_from(self, other: &Self) {
        self.store.close().await;
        let (_, database) = self.url.rsplit_once('/').unwrap();
        other.execute(format!("DROP DATABASE {database} WITH (FORCE)")).await;
    }

    /// Takes a role away, with all that it has.
    pub(crate) async fn drop_role(&self, role: &str) {
        self.execute(format!("DROP OWNED BY {role}; DROP ROLE {role}")).await;
    }

    async fn update(&self, change: &str, event_id: &str) {
        let sql = format!("UPDATE outbox_event SET {change} WHERE event_id = '{event_id}'");
        assert_eq!(self.execute(sql).await, 1);
    }
}

impl Fresh for PostgresStage {
    async fn fresh(url: &str) -> Self {
        Self::with(url, |options| options).await
    }

    async fn clean(self) {
        self.store.close().await;
        self.execute(format!("DROP SCHEMA {} CASCADE", self.schema)).await;
    }
}

impl StoreHarness for PostgresStage {
    type Store = PostgresStore;
    type Savepoint = ();

    fn store(&self) -> &Arc<PostgresStore> {
        &self.store
    }

    async fn elsewhere(&self) -> Option<Arc<PostgresStore>> {
        Some(Arc::new(self.options().connect().await.unwrap()))
    }

    async fn open(&self) -> Transaction<'static, Postgres> {
        self.store.pool().begin().await.unwrap()
    }

    async fn commit(&self, tx: Transaction<'static, Postgres>) {
        tx.commit().await.unwrap();
    }

    async fn rollback(&self, tx: Transaction<'static, Postgres>) {
        tx.rollback().await.unwrap();
    }

    async fn savepoint(&self, connection: &mut PgConnection) {
        connection.execute("SAVEPOINT here").await.unwrap();
    }

    async fn rollback_to(&self, connection: &mut PgConnection, (): ()) {
        connection.execute("ROLLBACK TO here").await.unwrap();
    }

    async fn corrupt(&self, event_id: &str) {
        self.update("headers = '[]'", event_id).await;
    }

    async fn push_lease_into_future(&self, event_id: &str) {
        self.update("available_at = available_at + interval '2 hours'", event_id).await;
    }
}

/// Makes the leases of all partitions and instances end two hours later, and events seem to be written and due then.
pub(crate) const INTO_FUTURE: &str = "
    UPDATE outbox_partition SET until = until + interval '2 hours';
    UPDATE outbox_instance SET until = until + interval '2 hours';
    UPDATE outbox_event SET created_at = created_at + interval '2 hours', due_at = due_at + interval '2 hours'";

/// Makes the list of members two hours older.
pub(crate) const OLDER_MEMBERS: &str = "
    UPDATE outbox_instance
    SET joined_at = joined_at - interval '2 hours', seen_at = seen_at - interval '2 hours'";

/// Writes an event as its writer would who knows of nothing but ids, types, keys and payloads.
pub(crate) async fn write_plainly(connection: &mut PgConnection, event: &Event) {
    let insert =
        "INSERT INTO outbox_event (event_id, event_type, event_key, payload) VALUES ($1, $2, $3, '{}')";
    let insert = sqlx::query(insert).persistent(false);
    let insert = insert.bind(event.id()).bind(event.event_type()).bind(event.key());
    insert.execute(connection).await.unwrap();
}

impl OwnershipHarness for PostgresStage {
    async fn put_clock_back(&self) {
        self.execute(INTO_FUTURE).await;
    }

    async fn let_members_age(&self) {
        self.execute(OLDER_MEMBERS).await;
    }

    async fn open_beside(&self) -> Option<Transaction<'static, Postgres>> {
        Some(self.open().await)
    }

    async fn write_without_partition(&self, event: &Event) {
        write_plainly(&mut self.connection().await, event).await;
    }

    async fn misplace(&self, event_id: &str, partition: u8) {
        self.update(&format!("event_partition = {partition}"), event_id).await;
    }
}

impl Stage for PostgresStage {
    type Store = PostgresStore;

    fn store(&self) -> PostgresStore {
        PostgresStore::clone(&self.store)
    }

    fn runtime(&self) -> Runtime {
        Runtime::tokio()
    }
}
