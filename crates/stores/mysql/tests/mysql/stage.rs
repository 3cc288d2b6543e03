//! Where the trials play: a database of its own for each.

use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use pillarbox::store::{Administration, Ownership, Status};
use pillarbox::{Event, Runtime};
use pillarbox_mysql::{MySqlOptions, MySqlStore};
use pillarbox_testkit::acceptance::Stage;
use pillarbox_testkit::conformance::{OwnershipHarness, StoreHarness};
use pillarbox_testkit::servers::{Fresh, unique_name};
use sqlx::mysql::{MySql, MySqlConnectOptions, MySqlConnection, MySqlSslMode};
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, Executor, Transaction};

/// A migrated outbox in a database that is dropped with it.
pub(crate) struct MySqlStage {
    pub(crate) store: Arc<MySqlStore>,
    pub(crate) database: String,
    server: MySqlConnectOptions,
}

impl MySqlStage {
    /// The URL of the stage's database, for the administrator of the server.
    pub(crate) fn url(&self) -> String {
        self.server.clone().database(&self.database).to_url_lossy().to_string()
    }

    /// The server's administrator, with no database.
    pub(crate) fn administrator(&self) -> MySqlConnectOptions {
        self.server.clone()
    }

    /// A user of the stage's database.
    pub(crate) fn options_as(&self, user: &str, password: &str) -> MySqlConnectOptions {
        self.server.clone().username(user).password(password).database(&self.database)
    }

    /// Creates a user for this trial, with grants that speak of the database `shop` and of `name`; returns what
    /// the user is really called.
    pub(crate) async fn user(&self, name: &str, password: &str, grants: &[&str]) -> String {
        let user = format!("{name}_{}", &self.database[self.database.len() - 12..]);
        self.run(&format!("CREATE USER '{user}'@'%' IDENTIFIED BY '{password}'")).await;
        for grant in grants {
            let grant = grant.replace("shop.", &format!("{}.", self.database));
            self.run(&grant.replace(&format!("'{name}'"), &format!("'{user}'"))).await;
        }
        user
    }

    /// Removes a user.
    pub(crate) async fn drop_user(&self, user: &str) {
        self.run(&format!("DROP USER '{user}'@'%'")).await;
    }

    /// Whether the server is MariaDB.
    pub(crate) async fn is_mariadb(&self) -> bool {
        self.number("SELECT VERSION() LIKE '%MariaDB%'").await == 1
    }

    /// Cuts every connection to the stage's database but the one that does it.
    pub(crate) async fn cut_connections(&self) {
        let mut connection = self.connection().await;
        let others = "SELECT CAST(id AS SIGNED) FROM information_schema.processlist
            WHERE db = DATABASE() AND id <> CONNECTION_ID()";
        let others: Vec<i64> = sqlx::query_scalar(others).fetch_all(&mut connection).await.unwrap();
        for other in others {
            // It may have gone by itself.
            let _ = connection.execute(AssertSqlSafe(format!("KILL CONNECTION {other}"))).await;
        }
        connection.close().await.unwrap();
    }

    /// The status of an event, asked for again while connections are cut.
    pub(crate) async fn status_in_time(&self, event_id: &str) -> Option<Status> {
        loop {
            match self.store.find(event_id).await {
                Ok(row) => return row.map(|row| row.status.unwrap()),
                Err(error) => assert!(error.is_transient(), "{error}"),
            }
        }
    }

    /// Whether the server can encrypt.
    pub(crate) async fn has_tls(&self) -> bool {
        let connected = self.server.clone().ssl_mode(MySqlSslMode::Required).connect().await;
        connected.is_ok()
    }

    /// Options for another store on the stage's database.
    pub(crate) fn options(&self) -> MySqlOptions {
        MySqlStore::options(self.url())
    }

    /// A connection of the administrator's to the stage's database.
    pub(crate) async fn connection(&self) -> MySqlConnection {
        self.server.clone().database(&self.database).connect().await.unwrap()
    }

    /// Runs statements as the administrator.
    pub(crate) async fn run(&self, sql: &str) {
        let mut connection = self.connection().await;
        connection.execute(AssertSqlSafe(sql.to_owned())).await.unwrap();
        connection.close().await.unwrap();
    }

    /// Drops the outbox.
    pub(crate) async fn empty(&self) {
        self.run("DROP TABLE outbox_event, outbox_meta, outbox_instance, outbox_partition, outbox_parked")
            .await;
    }

    /// The first value of the first row, as the administrator sees it.
    pub(crate) async fn number(&self, sql: &str) -> i64 {
        let mut connection = self.connection().await;
        let number = sqlx::query_scalar(AssertSqlSafe(sql.to_owned())).fetch_one(&mut connection).await;
        connection.close().await.unwrap();
        number.unwrap()
    }

    /// The status of an event; `None` if there is no row.
    pub(crate) async fn status(&self, event_id: &str) -> Option<Status> {
        let row = self.store.find(event_id).await.unwrap();
        row.map(|row| row.status.unwrap())
    }

    async fn update(&self, sql: &'static str, event_id: &str) {
        let updated = sqlx::query(sql).bind(event_id).execute(self.store.pool()).await;
        assert_eq!(updated.unwrap().rows_affected(), 1);
    }
}

impl Fresh for MySqlStage {
    async fn fresh(url: &str) -> Self {
        let server = MySqlConnectOptions::from_str(url).unwrap();
        let database = unique_name();
        let mut connection = server.connect().await.unwrap();
        let create = format!("CREATE DATABASE {database}");
        connection.execute(AssertSqlSafe(create)).await.unwrap();
        connection.close().await.unwrap();
        let url = server.clone().database(&database).to_url_lossy();
        let store = MySqlStore::connect(url.to_string()).await.unwrap();
        store.migrate().await.unwrap();
        Self { store: Arc::new(store), database, server }
    }

    async fn clean(self) {
        self.store.close().await;
        let mut connection = self.server.connect().await.unwrap();
        let drop = format!("DROP DATABASE IF EXISTS {}", self.database);
        connection.execute(AssertSqlSafe(drop)).await.unwrap();
        connection.close().await.unwrap();
    }
}

impl StoreHarness for MySqlStage {
    type Store = MySqlStore;
    type Savepoint = ();

    fn store(&self) -> &Arc<MySqlStore> {
        &self.store
    }

    /// None that could wake this one; what several stores on one database see is tested in `processes`.
    async fn elsewhere(&self) -> Option<Arc<MySqlStore>> {
        None
    }

    async fn open(&self) -> Transaction<'static, MySql> {
        self.store.pool().begin().await.unwrap()
    }

    async fn commit(&self, tx: Transaction<'static, MySql>) {
        tx.commit().await.unwrap();
    }

    async fn rollback(&self, tx: Transaction<'static, MySql>) {
        tx.rollback().await.unwrap();
    }

    async fn savepoint(&self, connection: &mut MySqlConnection) {
        connection.execute("SAVEPOINT here").await.unwrap();
    }

    async fn rollback_to(&self, connection: &mut MySqlConnection, (): ()) {
        connection.execute("ROLLBACK TO here").await.unwrap();
    }

    async fn corrupt(&self, event_id: &str) {
        self.update("UPDATE outbox_event SET headers = '{' WHERE event_id = ?", event_id).await;
    }

    async fn push_lease_into_future(&self, event_id: &str) {
        let two_hours_on =
            "UPDATE outbox_event SET available_at = available_at + INTERVAL 2 HOUR WHERE event_id = ?";
        self.update(two_hours_on, event_id).await;
    }
}

impl OwnershipHarness for MySqlStage {
    async fn put_clock_back(&self) {
        for table in ["outbox_partition", "outbox_instance"] {
            self.run(&format!("UPDATE {table} SET until = until + INTERVAL 2 HOUR")).await;
        }
        let moved = "created_at = created_at + INTERVAL 2 HOUR, due_at = due_at + INTERVAL 2 HOUR";
        self.run(&format!("UPDATE outbox_event SET {moved}")).await;
    }

    async fn let_members_age(&self) {
        let older = "joined_at = joined_at - INTERVAL 2 HOUR, seen_at = seen_at - INTERVAL 2 HOUR";
        self.run(&format!("UPDATE outbox_instance SET {older}")).await;
    }

    async fn open_beside(&self) -> Option<Transaction<'static, MySql>> {
        Some(self.open().await)
    }

    /// Past the trigger too, which would know.
    async fn write_without_partition(&self, event: &Event) {
        let trigger = include_str!("../../migrations/0001_trigger.sql");
        self.run("DROP TRIGGER outbox_event_partition").await;
        let sql =
            "INSERT INTO outbox_event (event_id, event_type, payload, event_key) VALUES (?, ?, '{}', ?)";
        let insert = sqlx::query(sql).bind(event.id()).bind(event.event_type()).bind(event.key());
        insert.execute(self.store.pool()).await.unwrap();
        self.run(trigger).await;
    }

    async fn misplace(&self, event_id: &str, partition: u8) {
        let misplace = sqlx::query("UPDATE outbox_event SET event_partition = ? WHERE event_id = ?");
        let misplaced = misplace.bind(partition).bind(event_id).execute(self.store.pool()).await;
        assert_eq!(misplaced.unwrap().rows_affected(), 1);
    }

    /// That of a store for which no transaction takes any time.
    async fn closed_in_time(&self) -> i64 {
        let store = self.options().longest_transaction(Duration::ZERO).connect().await.unwrap();
        let closed = store.numbers().await.unwrap().closed;
        store.close().await;
        closed
    }
}

impl Stage for MySqlStage {
    type Store = MySqlStore;

    fn store(&self) -> MySqlStore {
        MySqlStore::clone(&self.store)
    }

    fn runtime(&self) -> Runtime {
        Runtime::tokio()
    }
}
