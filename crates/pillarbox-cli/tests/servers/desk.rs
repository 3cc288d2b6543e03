//! An operator's desk: a database of its own on a server, the programs of that server, and ours.

#![expect(clippy::unwrap_used, reason = "what the tests stand on may fail as loudly as they do")]

use std::io::Write;
use std::process::{Command, Stdio};

use pillarbox_testkit::servers::{Fresh, unique_name};

use crate::program::{Answer, pillarbox};

/// The password of the user that a trial creates.
pub(crate) const PASSWORD: &str = "open-sesame-17";

/// Commands that need an outbox that exists.
pub(crate) const ON_AN_OUTBOX: [(&str, &[&str]); 10] = [
    ("status", &[]),
    ("tail", &["--once"]),
    ("dead list", &[]),
    ("dead show", &["id-1"]),
    ("dead replay", &["--all"]),
    ("dead discard", &["--all", "--yes"]),
    ("purge", &["--older-than", "30d"]),
    ("keys list", &[]),
    ("keys resume", &["--all"]),
    ("keys skip", &["order-17"]),
];

/// An empty database, and the right to do anything in it.
pub(crate) struct Desk {
    server: Address,
    /// The database, whose name is also that of the user that a trial may create.
    pub(crate) own: Address,
}

/// A URL in its parts.
#[derive(Clone)]
pub(crate) struct Address {
    pub(crate) scheme: String,
    pub(crate) user: String,
    pub(crate) password: String,
    pub(crate) host: String,
    pub(crate) port: String,
    pub(crate) database: String,
}

impl Address {
    fn of(url: &str) -> Self {
        let part = |text: &str, separator: &str| {
            let (before, after) = text.split_once(separator).unwrap();
            (before.to_owned(), after.to_owned())
        };
        let (scheme, rest) = part(url, "://");
        let (user, rest) = part(&rest, ":");
        let (password, rest) = part(&rest, "@");
        let (host, rest) = part(&rest, ":");
        let (port, database) = part(&rest, "/");
        Self { scheme, user, password, host, port, database }
    }

    pub(crate) fn url(&self) -> String {
        let Self { scheme, user, password, host, port, database } = self;
        format!("{scheme}://{user}:{password}@{host}:{port}/{database}")
    }

    /// As the program shows it.
    pub(crate) fn name(&self) -> String {
        let Self { scheme, user, host, port, database, .. } = self;
        format!("{scheme}://{user}@{host}:{port}/{database}")
    }

    pub(crate) fn is_postgres(&self) -> bool {
        self.scheme.starts_with("postgres")
    }

    /// Runs SQL by `psql` or `mariadb`, and returns what is selected.
    fn sql(&self, sql: &str) -> String {
        let mut client = if self.is_postgres() {
            let mut psql = Command::new("psql");
            psql.args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", &self.url()]);
            psql
        } else {
            let mut mariadb = Command::new("mariadb");
            mariadb.args(["--no-defaults", "-N", "-B", "-h", &self.host, "-P", &self.port]);
            mariadb.args(["-u", &self.user, &self.database]).env("MYSQL_PWD", &self.password);
            mariadb
        };
        let mut running =
            client.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        running.stdin.take().unwrap().write_all(sql.as_bytes()).unwrap();
        let answer = Answer::of(running.wait_with_output().unwrap());
        assert_eq!(answer.code, Some(0), "{sql}\n{}", answer.err);
        answer.out.trim_end().to_owned()
    }
}

impl Desk {
    /// Runs SQL on the desk's database by `psql` or `mariadb`, and returns what is selected.
    pub(crate) fn sql(&self, sql: &str) -> String {
        self.own.sql(sql)
    }

    /// Of two spellings, that of the server.
    pub(crate) fn either<'a>(&self, postgres: &'a str, mysql: &'a str) -> &'a str {
        if self.own.is_postgres() { postgres } else { mysql }
    }

    /// Runs a command (one or two words) on the desk's database.
    pub(crate) fn run(&self, command: &str, arguments: &[&str]) -> Answer {
        self.run_at(&self.own.url(), command, arguments)
    }

    /// Runs a command on the database at `url`; whatever comes of it, it shows no password.
    pub(crate) fn run_at(&self, url: &str, command: &str, arguments: &[&str]) -> Answer {
        let mut program = pillarbox();
        program.args(command.split(' ')).args(["--db", url]).args(arguments);
        let answer = Answer::of(program.output().unwrap());
        self.assert_discreet(&answer);
        answer
    }

    /// Runs a command with everything logged; the log shows no password either.
    pub(crate) fn run_loudly(&self, url: &str, command: &str, arguments: &[&str]) -> Answer {
        let mut program = pillarbox();
        program.args(command.split(' ')).args(arguments).env("PILLARBOX_DB", url).env("RUST_LOG", "trace");
        let answer = Answer::of(program.output().unwrap());
        self.assert_discreet(&answer);
        answer
    }

    /// Makes an outbox that holds these events, with their status.
    pub(crate) fn with_events(&self, events: &[(&str, i64)]) {
        assert_eq!(self.run("migrate", &[]).code, Some(0));
        for (id, status) in events {
            let (attempts, error) = if *status == 3 { (4, "'no such address'") } else { (0, "NULL") };
            let done_at = match status {
                1 => self.either("clock_timestamp()", "UTC_TIMESTAMP(6)"),
                _ => "NULL",
            };
            self.sql(&format!(
                "INSERT INTO outbox_event
                    (event_id, event_type, aggregate_type, aggregate_id, payload, status, attempts, last_error, done_at)
                 VALUES ('{id}', 'OrderPlaced', 'Order', 'order-17', '{{\"total\":12345678901234567890123}}',
                    {status}, {attempts}, {error}, {done_at})"
            ));
        }
    }

    /// How many events have this status.
    pub(crate) fn count(&self, status: i64) -> String {
        self.sql(&format!("SELECT count(*) FROM outbox_event WHERE status = {status}"))
    }

    /// Creates a user who may read the version of the tables and nothing else.
    pub(crate) fn create_user(&self) -> Address {
        let user = &self.own.database;
        let create = if self.own.is_postgres() {
            format!("CREATE ROLE {user} LOGIN PASSWORD '{PASSWORD}'; GRANT SELECT ON outbox_meta TO {user};")
        } else {
            format!("CREATE USER {user} IDENTIFIED BY '{PASSWORD}'; GRANT SELECT ON outbox_meta TO {user};")
        };
        self.sql(&create);
        Address { user: user.clone(), password: PASSWORD.to_owned(), ..self.own.clone() }
    }

    fn assert_discreet(&self, answer: &Answer) {
        for password in [&self.own.password, PASSWORD] {
            for said in [&answer.out, &answer.err] {
                assert!(!said.contains(password), "{}", said.replace(password, "<the password>"));
            }
        }
    }
}

impl Fresh for Desk {
    async fn fresh(url: &str) -> Self {
        let server = Address::of(url);
        let own = Address { database: unique_name(), ..server.clone() };
        server.sql(&format!("CREATE DATABASE {}", own.database));
        Self { server, own }
    }

    async fn clean(self) {
        let name = &self.own.database;
        if self.own.is_postgres() {
            self.server.sql(&format!("DROP DATABASE {name} WITH (FORCE)"));
            self.server.sql(&format!("DROP ROLE IF EXISTS {name}"));
        } else {
            self.server.sql(&format!("DROP DATABASE {name}; DROP USER IF EXISTS {name}"));
        }
    }
}
