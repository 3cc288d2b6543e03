//! A database with an outbox of its own, which events are written to by plain SQL.

use std::io::Write;
use std::ops::Range;
use std::process::{Command, Stdio};

use pillarbox_sqlite::SqliteStore;
use pillarbox_testkit::servers::{self, unique_name};
use sqlx::{AssertSqlSafe, Row};
use tempfile::TempDir;

use crate::program::{Answer, pillarbox};
use crate::tools::url_of;

/// How many keys events have: one event of each can be on its way, and RabbitMQ takes its time to confirm.
pub(crate) const KEYS: usize = 2_000;

/// Which database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Postgres,
    MySql,
    Sqlite,
}

/// A database, migrated; deleted when it is dropped.
pub(crate) struct Database {
    kind: Kind,
    /// Where the program finds it.
    pub(crate) url: String,
    /// The server's own database; none if it is a file.
    server: Option<String>,
    _directory: Option<TempDir>,
}

impl Database {
    pub(crate) fn new(kind: Kind) -> Self {
        let database = match kind {
            Kind::Postgres => Self::on_server(kind, url_of(servers::POSTGRES)),
            Kind::MySql => Self::on_server(kind, url_of(servers::MYSQL)),
            Kind::Sqlite => {
                let directory = tempfile::tempdir().unwrap();
                let url = directory.path().join("shop.db").to_str().unwrap().to_owned();
                Self { kind, url, server: None, _directory: Some(directory) }
            }
        };
        let migrated = Answer::of(pillarbox().args(["migrate", "--db", &database.url]).output().unwrap());
        assert_eq!(migrated.code, Some(0), "{}", migrated.err);
        database
    }

    fn on_server(kind: Kind, server: String) -> Self {
        let name = unique_name();
        let url = format!("{}/{name}", server.rsplit_once('/').unwrap().0);
        execute(kind, &server, &format!("CREATE DATABASE {name};"));
        Self { kind, url, server: Some(server), _directory: None }
    }

    /// Writes the events of these numbers in one statement.
    pub(crate) fn write(&self, numbers: Range<usize>) {
        self.sql(&insert(self.kind, numbers));
    }

    /// Executes one statement, and gives the first column of what it selects, a line for each row.
    pub(crate) fn sql(&self, statement: &str) -> String {
        execute(self.kind, &self.url, statement)
    }

    /// The number that a statement selects.
    pub(crate) fn number(&self, select: &str) -> usize {
        self.sql(select).parse().unwrap()
    }

    /// How many events have another status than DONE.
    pub(crate) fn unfinished(&self) -> usize {
        self.number("SELECT count(*) FROM outbox_event WHERE status <> 1;")
    }

    /// How many events have spent an attempt.
    pub(crate) fn spent(&self) -> usize {
        self.number("SELECT count(*) FROM outbox_event WHERE attempts <> 0;")
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        let Some(server) = &self.server else { return };
        let name = self.url.rsplit_once('/').map_or("", |(_, name)| name);
        let force = if self.kind == Kind::Postgres { " WITH (FORCE)" } else { "" };
        // No panic here: one may be under way.
        if let Ok(mut client) = client(self.kind, server).stdin(Stdio::piped()).spawn() {
            if let Some(mut input) = client.stdin.take() {
                let _ = writeln!(input, "DROP DATABASE {name}{force};");
            }
            let _ = client.wait();
        }
    }
}

/// The statement that writes the events of these numbers.
pub(crate) fn insert(kind: Kind, numbers: Range<usize>) -> String {
    let statement = match kind {
        Kind::Postgres => include_str!("database/postgres.sql"),
        Kind::MySql => include_str!("database/mysql.sql"),
        Kind::Sqlite => include_str!("database/sqlite.sql"),
    };
    let last = numbers.end - 1;
    statement
        .replace("{first}", &numbers.start.to_string())
        .replace("{last}", &last.to_string())
        .replace("{keys}", &KEYS.to_string())
}

fn execute(kind: Kind, url: &str, statement: &str) -> String {
    if kind == Kind::Sqlite {
        return execute_on_file(url, statement);
    }
    let mut running = client(kind, url)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    running.stdin.take().unwrap().write_all(statement.as_bytes()).unwrap();
    let answer = Answer::of(running.wait_with_output().unwrap());
    assert_eq!(answer.code, Some(0), "{statement}\n{}", answer.err);
    answer.out.trim_end().to_owned()
}

/// By the library that the store has built in: that of the system may be older than the defaults of the table need.
fn execute_on_file(file: &str, statement: &str) -> String {
    let work = || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let store = SqliteStore::options(file).watch(false).connect().await.unwrap();
            let statement = AssertSqlSafe(statement.to_owned());
            let rows = sqlx::raw_sql(statement).fetch_all(store.pool()).await.unwrap();
            store.close().await;
            // Only numbers are asked for here.
            rows.iter().map(|row| row.get::<i64, _>(0).to_string()).collect::<Vec<String>>().join("\n")
        })
    };
    // On a thread of its own: the trial's has a runtime already.
    std::thread::scope(|scope| scope.spawn(work).join().unwrap())
}

/// The server's own client, which executes what it reads.
pub(crate) fn client(kind: Kind, url: &str) -> Command {
    match kind {
        Kind::Postgres => {
            let mut psql = Command::new("psql");
            psql.args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", url]);
            psql
        }
        Kind::MySql => {
            let (user, host) = url.trim_start_matches("mysql://").split_once('@').unwrap();
            let (user, password) = user.split_once(':').unwrap();
            let (host, database) = host.split_once('/').unwrap();
            let (host, port) = host.split_once(':').unwrap();
            let mut mariadb = Command::new("mariadb");
            mariadb.args(["--no-defaults", "-N", "-B", "-h", host, "-P", port, "-u", user, database]);
            mariadb.env("MYSQL_PWD", password);
            mariadb
        }
        Kind::Sqlite => unreachable!("there is no server"),
    }
}
