//! MySQL and MariaDB: a database of its own for each outbox.

mod owned;

use std::ops::Range;
use std::time::Duration;

use anyhow::{Context, Result};
use pillarbox::partition_of;
use pillarbox_mysql::MySqlStore;
use sqlx::mysql::{MySqlConnectOptions, MySqlPoolOptions};
use sqlx::{
    AssertSqlSafe, Connection, Executor, MySql, MySqlConnection, MySqlPool, QueryBuilder, Transaction,
};

use crate::cases::{self, Case};
use crate::database::{
    self, AGGREGATE, Address, Claimed, Database, EVENT, Fill, Goals, Meter, Pages, Server,
};
use crate::measure::Scale;
use crate::report::{Goal, Line};
use crate::server::{self, Databases, portions};

/// How many rows one statement fills in.
const PORTION: usize = 100_000;
/// How long connections may take to go away.
const GONE_WITHIN: Duration = Duration::from_secs(30);

/// A server, and the databases that were made on it.
pub(crate) struct MySqlServer {
    databases: Databases,
    pool: MySqlPool,
}

impl MySqlServer {
    pub(crate) async fn connect(url: String) -> Result<Self> {
        let pool = MySqlPool::connect(&url).await.context("the server cannot be used")?;
        let version: String = sqlx::query_scalar("SELECT version()").fetch_one(&pool).await?;
        eprintln!("MySQL {version}");
        Ok(Self { databases: Databases::new(url), pool })
    }

    async fn drop_database(&self, name: &str) -> Result<()> {
        self.pool.execute(AssertSqlSafe(format!("DROP DATABASE IF EXISTS {name}"))).await?;
        Ok(())
    }
}

impl Database for MySqlServer {
    const NAME: &'static str = "mysql";
    const CASES: &'static [Case] = &[
        Case::Write,
        Case::WriteTen,
        Case::HotLatency,
        Case::Drain,
        Case::DrainDoneRows,
        Case::DrainBacklog,
        Case::Claimers,
        Case::HeldSnapshot,
        Case::Wal,
        Case::RunSink,
        Case::Memory,
        Case::Handlers,
        Case::OwnedDrain,
        Case::OwnedOrdered,
        Case::OwnedHotKey,
        Case::OwnedAside,
        Case::OwnedLatency,
        Case::OwnedInstances,
        Case::OwnedHeldSnapshot,
        Case::OwnedWal,
    ];
    // How many times faster runs are depends on how fast the server lets us drain; that they are not slower than
    // draining is a goal everywhere.
    const GOALS: Goals =
        Goals { write: Goal::AtMost(1.1), drain: Goal::AtLeast(0.7), run_sink: None, owned: None };

    type Driver = MySql;
    type Store = MySqlStore;

    async fn create(&self, name: &str) -> Result<Address> {
        let (name, is_new) = self.databases.add(name);
        let address = self.databases.address(&name)?;
        if !is_new {
            for table in ["outbox_event", "orders"] {
                self.pool.execute(AssertSqlSafe(format!("TRUNCATE TABLE {name}.{table}"))).await?;
            }
            return Ok(address);
        }
        self.drop_database(&name).await?;
        self.pool.execute(AssertSqlSafe(format!("CREATE DATABASE {name}"))).await?;
        let store = MySqlStore::connect(address.as_str()).await?;
        store.migrate().await?;
        store.pool().execute(include_str!("mysql/orders.sql")).await?;
        store.close().await;
        Ok(address)
    }

    async fn clear(&self) -> Result<()> {
        for name in self.databases.take() {
            self.drop_database(&name).await?;
        }
        Ok(())
    }

    async fn measure(&self, case: Case, scale: Scale) -> Result<Vec<Line>> {
        cases::measure_on_server(case, self, scale).await
    }

    async fn store(address: &Address) -> Result<MySqlStore> {
        Ok(MySqlStore::connect(address.as_str()).await?)
    }

    async fn close(store: &MySqlStore) {
        store.close().await;
    }

    async fn pool(address: &Address) -> Result<MySqlPool> {
        pool(address, "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED").await
    }

    async fn begin(pool: &MySqlPool) -> Result<Transaction<'static, MySql>> {
        Ok(pool.begin().await?)
    }

    async fn place_order(connection: &mut MySqlConnection, number: usize) -> Result<()> {
        sqlx::query("INSERT INTO orders (id, total) VALUES (?, ?)")
            .bind(database::order(number))
            .bind(129_900_i64)
            .execute(connection)
            .await?;
        Ok(())
    }

    async fn insert(connection: &mut MySqlConnection, numbers: Range<usize>) -> Result<()> {
        if numbers.len() > 1 {
            return insert_many(connection, numbers).await;
        }
        let (number, order) = (numbers.start, database::order(numbers.start));
        sqlx::query(include_str!("mysql/insert.sql"))
            .bind(database::id(number))
            .bind(EVENT)
            .bind(AGGREGATE)
            .bind(&order)
            .bind(&order)
            .bind(partition_of(&order))
            .bind(database::payload(number))
            .execute(connection)
            .await?;
        Ok(())
    }

    async fn read_back(connection: &mut MySqlConnection, id: &str) -> Result<()> {
        let query = sqlx::query_as(include_str!("mysql/read_back.sql"));
        let _: (i64, i64) = query.bind(id).fetch_one(connection).await?;
        Ok(())
    }

    /// No UPDATE here gives back what it changed: select and update, in one transaction.
    async fn claim(connection: &mut MySqlConnection, token: i64, limit: usize) -> Result<Vec<Claimed>> {
        let mut tx = connection.begin().await?;
        let query = sqlx::query_as(include_str!("mysql/select.sql"));
        let claimed: Vec<Claimed> = query.bind(i64::try_from(limit)?).fetch_all(&mut *tx).await?;
        if !claimed.is_empty() {
            for_numbers(&mut tx, include_str!("mysql/claim.sql"), token, &claimed).await?;
        }
        tx.commit().await?;
        Ok(claimed)
    }

    async fn settle(connection: &mut MySqlConnection, token: i64, claimed: &[Claimed]) -> Result<u64> {
        for_numbers(connection, include_str!("mysql/settle.sql"), token, claimed).await
    }

    async fn fill(address: &Address, count: usize, kind: Fill) -> Result<()> {
        let pool = Self::pool(address).await?;
        let query = sqlx::query_scalar("SELECT coalesce(max(seq), 0) + 1 FROM outbox_event");
        let from: i64 = query.fetch_one(&pool).await?;
        for numbers in portions(from, count, PORTION)? {
            let row = |number| {
                let key = kind.key(number);
                (number, partition_of(&key), key)
            };
            let rows: Vec<(i64, u8, String)> = numbers.map(row).collect();
            sqlx::query(include_str!("mysql/fill.sql"))
                .bind(kind == Fill::Done)
                .bind(kind == Fill::Done)
                .bind(serde_json::to_string(&rows)?)
                .execute(&pool)
                .await?;
        }
        pool.execute("ANALYZE TABLE outbox_event").await?;
        pool.close().await;
        Ok(())
    }
}

/// Connections that begin with `setting`.
async fn pool(address: &Address, setting: &'static str) -> Result<MySqlPool> {
    let options: MySqlConnectOptions = address.as_str().parse()?;
    let pool = MySqlPoolOptions::new().max_connections(2).test_before_acquire(false);
    let pool = pool.after_connect(move |connection, _| {
        Box::pin(async move { connection.execute(setting).await.map(drop) })
    });
    Ok(pool.connect_with(options).await?)
}

async fn insert_many(connection: &mut MySqlConnection, numbers: Range<usize>) -> Result<()> {
    let mut insert = QueryBuilder::new(include_str!("mysql/insert_many.sql"));
    insert.push_values(numbers, |mut row, number| {
        let order = database::order(number);
        row.push_bind(database::id(number))
            .push_bind(EVENT)
            .push_bind(AGGREGATE)
            .push_bind(order.clone())
            .push_bind(order.clone())
            .push_bind(partition_of(&order))
            .push("UTC_TIMESTAMP(6)")
            .push_bind(database::payload(number));
    });
    insert.build().execute(connection).await?;
    Ok(())
}

/// Runs a statement on the rows of these events, and says how many it changed.
async fn for_numbers(
    connection: &mut MySqlConnection,
    statement: &str,
    token: i64,
    events: &[Claimed],
) -> Result<u64> {
    let places = vec!["?"; events.len()].join(", ");
    let statement = statement.replace("IN (?)", &format!("IN ({places})"));
    let query = sqlx::query(AssertSqlSafe(statement)).bind(token);
    let query = events.iter().fold(query, |query, event| query.bind(event.0));
    Ok(query.execute(connection).await?.rows_affected())
}

impl Server for MySqlServer {
    /// Nothing to do: the log never has whole pages in it.
    async fn checkpoint(&self) -> Result<()> {
        Ok(())
    }

    async fn meter(&self, address: &Address) -> Result<Meter> {
        let name = server::name_in(address);
        let gone = async {
            let connected = "SELECT count(*) FROM information_schema.PROCESSLIST WHERE DB = ?";
            while sqlx::query_scalar::<_, i64>(connected).bind(name).fetch_one(&self.pool).await? > 0 {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            anyhow::Ok(())
        };
        tokio::time::timeout(GONE_WITHIN, gone).await.context("connections to the outbox stay open")??;
        // This number stands still until it is asked for, and is not begun anew by asking again.
        let begun = self.pool.execute("SET GLOBAL innodb_monitor_enable = 'trx_rw_commits'").await;
        begun.context("the user of the URL must be allowed to set global variables")?;
        let commits: i64 =
            sqlx::query_scalar(include_str!("mysql/commits.sql")).fetch_one(&self.pool).await?;
        let status = "SHOW GLOBAL STATUS LIKE 'Innodb_os_log_written'";
        let (_, log_bytes): (String, String) = sqlx::query_as(status).fetch_one(&self.pool).await?;
        Ok(Meter { log_bytes: log_bytes.parse()?, commits: commits.try_into()? })
    }

    async fn taken_once(address: &Address) -> Result<u64> {
        let pool = Self::pool(address).await?;
        let once: i64 = sqlx::query_scalar(database::TAKEN_ONCE).fetch_one(&pool).await?;
        pool.close().await;
        Ok(once.try_into()?)
    }

    async fn pages(_: &Address) -> Result<Option<Pages>> {
        Ok(None)
    }

    async fn snapshot(address: &Address) -> Result<Transaction<'static, MySql>> {
        let pool = pool(address, "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ").await?;
        let mut tx = pool.begin_with("START TRANSACTION WITH CONSISTENT SNAPSHOT").await?;
        tx.execute("SELECT count(*) FROM outbox_event").await?;
        Ok(tx)
    }
}
