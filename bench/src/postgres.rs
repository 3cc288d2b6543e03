//! PostgreSQL: a database of its own for each outbox.

mod hints;
mod notify;
mod owned;

use std::ops::Range;
use std::time::Duration;

use anyhow::{Context, Result};
use pillarbox::partition_of;
use pillarbox_postgres::PostgresStore;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{AssertSqlSafe, Executor, PgConnection, PgPool, Postgres, QueryBuilder, Transaction};

use crate::cases::{self, Case, wake_up, write};
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
pub(crate) struct PostgresServer {
    databases: Databases,
    pool: PgPool,
}

impl PostgresServer {
    pub(crate) async fn connect(url: String) -> Result<Self> {
        let pool = PgPool::connect(&url).await.context("the server cannot be used")?;
        let version: String = sqlx::query_scalar("SELECT version()").fetch_one(&pool).await?;
        eprintln!("{version}");
        Ok(Self { databases: Databases::new(url), pool })
    }

    async fn drop_database(&self, name: &str) -> Result<()> {
        let statement = format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)");
        self.pool.execute(AssertSqlSafe(statement)).await?;
        Ok(())
    }
}

impl Database for PostgresServer {
    const NAME: &'static str = "postgres";
    const CASES: &'static [Case] = &[
        Case::Write,
        Case::WriteTen,
        Case::HotLatency,
        Case::WakeUp,
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
        Case::RelayKafka,
    ];
    // How many times faster runs are depends on how fast the server lets us drain; that they are not slower than
    // draining is a goal everywhere.
    const GOALS: Goals = Goals {
        write: Goal::AtMost(1.1),
        drain: Goal::AtLeast(0.7),
        run_sink: None,
        owned: Some(Goal::AtLeast(2.5)),
    };

    type Driver = Postgres;
    type Store = PostgresStore;

    async fn create(&self, name: &str) -> Result<Address> {
        let (name, is_new) = self.databases.add(name);
        let address = self.databases.address(&name)?;
        if !is_new {
            let pool = Self::pool(&address).await?;
            pool.execute("TRUNCATE outbox_event, orders RESTART IDENTITY").await?;
            pool.close().await;
            return Ok(address);
        }
        self.drop_database(&name).await?;
        self.pool.execute(AssertSqlSafe(format!("CREATE DATABASE {name}"))).await?;
        let store = PostgresStore::connect(address.as_str()).await?;
        store.migrate().await?;
        store.pool().execute(include_str!("postgres/orders.sql")).await?;
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
        match case {
            Case::Write => {
                let mut lines = write::measure(self, scale).await?;
                lines.extend(notify::measure(self, scale).await?);
                Ok(lines)
            }
            Case::WakeUp => wake_up::measure(self, scale).await,
            shared => cases::measure_on_server(shared, self, scale).await,
        }
    }

    async fn store(address: &Address) -> Result<PostgresStore> {
        Ok(PostgresStore::connect(address.as_str()).await?)
    }

    async fn close(store: &PostgresStore) {
        store.close().await;
    }

    async fn pool(address: &Address) -> Result<PgPool> {
        let options: PgConnectOptions = address.as_str().parse()?;
        let pool = PgPoolOptions::new().max_connections(2).test_before_acquire(false);
        Ok(pool.connect_with(options).await?)
    }

    async fn begin(pool: &PgPool) -> Result<Transaction<'static, Postgres>> {
        Ok(pool.begin().await?)
    }

    async fn place_order(connection: &mut PgConnection, number: usize) -> Result<()> {
        sqlx::query("INSERT INTO orders (id, total) VALUES ($1, $2)")
            .bind(database::order(number))
            .bind(129_900_i64)
            .execute(connection)
            .await?;
        Ok(())
    }

    async fn insert(connection: &mut PgConnection, numbers: Range<usize>) -> Result<()> {
        if numbers.len() > 1 {
            return insert_many(connection, numbers).await;
        }
        let (number, order) = (numbers.start, database::order(numbers.start));
        sqlx::query(include_str!("postgres/insert.sql"))
            .bind(database::id(number))
            .bind(EVENT)
            .bind(AGGREGATE)
            .bind(&order)
            .bind(&order)
            .bind(i16::from(partition_of(&order)))
            .bind(database::payload(number))
            .execute(connection)
            .await?;
        Ok(())
    }

    async fn read_back(connection: &mut PgConnection, id: &str) -> Result<()> {
        let query = sqlx::query_as(include_str!("postgres/read_back.sql"));
        let _: (i64, i64) = query.bind(id).fetch_one(connection).await?;
        Ok(())
    }

    async fn claim(connection: &mut PgConnection, token: i64, limit: usize) -> Result<Vec<Claimed>> {
        let claimed = sqlx::query_as(include_str!("postgres/claim.sql"))
            .bind(300_000_000_i64)
            .bind("by hand")
            .bind(token)
            .bind(i64::try_from(limit)?)
            .fetch_all(connection)
            .await?;
        Ok(claimed)
    }

    async fn settle(connection: &mut PgConnection, token: i64, claimed: &[Claimed]) -> Result<u64> {
        let numbers: Vec<i64> = claimed.iter().map(|event| event.0).collect();
        let settled = sqlx::query(include_str!("postgres/settle.sql"))
            .bind(numbers)
            .bind(token)
            .execute(connection)
            .await?;
        Ok(settled.rows_affected())
    }

    async fn fill(address: &Address, count: usize, kind: Fill) -> Result<()> {
        let pool = Self::pool(address).await?;
        let query = sqlx::query_scalar("SELECT coalesce(max(seq), 0) + 1 FROM outbox_event");
        let from: i64 = query.fetch_one(&pool).await?;
        for numbers in portions(from, count, PORTION)? {
            let keys: Vec<String> = numbers.clone().map(|number| kind.key(number)).collect();
            let partitions: Vec<i16> = keys.iter().map(|key| i16::from(partition_of(key))).collect();
            sqlx::query(include_str!("postgres/fill.sql"))
                .bind(numbers.collect::<Vec<i64>>())
                .bind(keys)
                .bind(partitions)
                .bind(kind == Fill::Done)
                .execute(&pool)
                .await?;
        }
        pool.execute("VACUUM (ANALYZE) outbox_event").await?;
        pool.close().await;
        Ok(())
    }
}

async fn insert_many(connection: &mut PgConnection, numbers: Range<usize>) -> Result<()> {
    let mut insert = QueryBuilder::new(include_str!("postgres/insert_many.sql"));
    insert.push_values(numbers, |mut row, number| {
        let order = database::order(number);
        row.push_bind(database::id(number))
            .push_bind(EVENT)
            .push_bind(AGGREGATE)
            .push_bind(order.clone())
            .push_bind(order.clone())
            .push_bind(i16::from(partition_of(&order)))
            .push("statement_timestamp()")
            .push_bind(database::payload(number))
            .push_unseparated("::json");
    });
    insert.build().execute(connection).await?;
    Ok(())
}

impl Server for PostgresServer {
    /// After it, the first change of each page writes the whole page; pages that are filled later are not.
    async fn checkpoint(&self) -> Result<()> {
        let done = self.pool.execute("CHECKPOINT").await;
        done.map(drop).context("the user of the URL needs the role `pg_checkpoint`")
    }

    async fn meter(&self, address: &Address) -> Result<Meter> {
        let name = server::name_in(address);
        let counted = async {
            loop {
                // What a connection has counted is known for sure when it is gone.
                let (log_bytes, commits, connected): (i64, i64, i64) =
                    sqlx::query_as(include_str!("postgres/meter.sql"))
                        .bind(name)
                        .fetch_one(&self.pool)
                        .await?;
                if connected == 0 {
                    return Ok(Meter { log_bytes: log_bytes.try_into()?, commits: commits.try_into()? });
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        let counted = tokio::time::timeout(GONE_WITHIN, counted).await;
        counted.context("connections to the outbox stay open")?
    }

    async fn taken_once(address: &Address) -> Result<u64> {
        let pool = Self::pool(address).await?;
        let once: i64 = sqlx::query_scalar(database::TAKEN_ONCE).fetch_one(&pool).await?;
        pool.close().await;
        Ok(once.try_into()?)
    }

    async fn pages(address: &Address) -> Result<Option<Pages>> {
        let pool = Self::pool(address).await?;
        let query = sqlx::query_as(include_str!("postgres/pages.sql"));
        let (touched, searches): (i64, i64) = query.fetch_one(&pool).await?;
        pool.close().await;
        Ok(Some(Pages { touched: touched.try_into()?, searches: searches.try_into()? }))
    }

    async fn snapshot(address: &Address) -> Result<Transaction<'static, Postgres>> {
        let pool = Self::pool(address).await?;
        let mut tx = pool.begin_with("BEGIN ISOLATION LEVEL REPEATABLE READ").await?;
        tx.execute("SELECT count(*) FROM outbox_event").await?;
        Ok(tx)
    }
}
