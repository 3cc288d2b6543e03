//! Databases of their own, in which the statements of the page run as they stand.

use std::process::Command;

use pillarbox::Store;
use pillarbox_mysql::MySqlStore;
use pillarbox_postgres::PostgresStore;
use pillarbox_testkit::servers::{Fresh, unique_name};

use crate::page;

/// What the cases need of a database.
pub(crate) trait PlainSql {
    type Store: Store + Clone;

    /// Its heading on the page.
    const DATABASE: &'static str;

    /// How many blocks of SQL the page has for it.
    const STATEMENTS: usize;

    fn store(&self) -> Self::Store;

    /// Executes SQL as it stands.
    async fn run(&self, sql: &str);

    /// The line of the page that writes an event from a shell, ready to run.
    fn shell(&self) -> Command;
}

pub(crate) struct PostgresStage {
    server: String,
    url: String,
    pub(crate) store: PostgresStore,
}

pub(crate) struct MySqlStage {
    url: String,
    store: MySqlStore,
    home: tempfile::TempDir,
}

impl Fresh for PostgresStage {
    async fn fresh(server: &str) -> Self {
        let name = unique_name();
        let admin = PostgresStore::connect(server).await.unwrap();
        execute_postgres(&admin, &format!("CREATE DATABASE {name}")).await;
        admin.close().await;
        let url = with_database(server, &name);
        let store = PostgresStore::connect(&url).await.unwrap();
        store.migrate().await.unwrap();
        Self { server: server.to_owned(), url, store }
    }

    async fn clean(self) {
        self.store.close().await;
        let admin = PostgresStore::connect(&self.server).await.unwrap();
        execute_postgres(&admin, &format!("DROP DATABASE {} WITH (FORCE)", database(&self.url))).await;
        admin.close().await;
    }
}

impl PlainSql for PostgresStage {
    type Store = PostgresStore;
    const DATABASE: &'static str = "PostgreSQL";
    const STATEMENTS: usize = 8;

    fn store(&self) -> PostgresStore {
        self.store.clone()
    }

    async fn run(&self, sql: &str) {
        execute_postgres(&self.store, sql).await;
    }

    fn shell(&self) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", page::shell("psql")]).env("DATABASE_URL", &self.url);
        command
    }
}

impl Fresh for MySqlStage {
    async fn fresh(server: &str) -> Self {
        let name = unique_name();
        let admin = MySqlStore::connect(server).await.unwrap();
        execute_mysql(&admin, &format!("CREATE DATABASE {name}")).await;
        admin.close().await;
        let url = with_database(server, &name);
        let store = MySqlStore::connect(&url).await.unwrap();
        store.migrate().await.unwrap();
        let home = tempfile::tempdir().unwrap();
        std::fs::write(home.path().join(".my.cnf"), client_settings(&url)).unwrap();
        Self { url, store, home }
    }

    async fn clean(self) {
        execute_mysql(&self.store, &format!("DROP DATABASE {}", database(&self.url))).await;
        self.store.close().await;
    }
}

impl PlainSql for MySqlStage {
    type Store = MySqlStore;
    const DATABASE: &'static str = "MySQL and MariaDB";
    const STATEMENTS: usize = 6;

    fn store(&self) -> MySqlStore {
        self.store.clone()
    }

    async fn run(&self, sql: &str) {
        execute_mysql(&self.store, sql).await;
    }

    fn shell(&self) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", page::shell("mariadb")]).env("HOME", self.home.path());
        command
    }
}

async fn execute_postgres(store: &PostgresStore, sql: &str) {
    let ran = sqlx::raw_sql(sqlx::AssertSqlSafe(sql)).execute(store.pool()).await;
    ran.unwrap_or_else(|error| panic!("{error}:\n{sql}"));
}

async fn execute_mysql(store: &MySqlStore, sql: &str) {
    let ran = sqlx::raw_sql(sqlx::AssertSqlSafe(sql)).execute(store.pool()).await;
    ran.unwrap_or_else(|error| panic!("{error}:\n{sql}"));
}

/// The URL of another database on the same server.
fn with_database(url: &str, name: &str) -> String {
    let (server, _) = url.rsplit_once('/').expect("the URL names a database");
    format!("{server}/{name}")
}

fn database(url: &str) -> &str {
    url.rsplit_once('/').expect("the URL names a database").1
}

/// What `~/.my.cnf` says for `mysql://user:password@host:port/database`; the password may be missing.
fn client_settings(url: &str) -> String {
    let (login, rest) = url.trim_start_matches("mysql://").split_once('@').expect("a user");
    let (user, password) = login.split_once(':').unwrap_or((login, ""));
    let (host, rest) = rest.split_once(':').expect("a host");
    let (port, database) = rest.split_once('/').expect("a port");
    format!(
        "[client]\nuser = {user}\npassword = {password}\nhost = {host}\nport = {port}\nprotocol = tcp\n\
         [mysql]\ndatabase = {database}\n"
    )
}
