//! Who takes part, and who owns which partition.

use std::sync::Arc;

use pillarbox::PARTITIONS;
use pillarbox::store::{Epoch, Floor, Holding, Instance, Member, Mode, Owner, Pulse, StoreError};
use pillarbox_sql::{check_lease, members, micros};
use serde_json::{Value, json};
use sqlx::query::Query;
use sqlx::sqlite::{Sqlite, SqliteArguments, SqliteConnection, SqliteRow};
use sqlx::{Row, SqlStr};

use crate::SqliteStore;
use crate::mode;
use crate::row::span;
use crate::statements::Statements;
use crate::store::Inner;

impl SqliteStore {
    pub(crate) async fn join_as(&self, instance: &Instance) -> Result<Vec<Holding>, StoreError> {
        check_lease(instance.live_for)?;
        self.inner.file.check()?;
        let (caller, inner) = (Caller::of(instance), Arc::clone(&self.inner));
        let joined =
            self.write(move |connection| Box::pin(async move { caller.join(connection, &inner).await }));
        joined.await?
    }

    pub(crate) async fn beat_as(&self, instance: &Instance, floors: &[Floor]) -> Result<Pulse, StoreError> {
        check_lease(instance.live_for)?;
        self.inner.file.check()?;
        let (caller, inner, floors) = (Caller::of(instance), Arc::clone(&self.inner), told(floors));
        let heard = self.write(move |connection| {
            Box::pin(async move { caller.beat(connection, &inner.statements, floors).await })
        });
        heard.await?
    }

    pub(crate) async fn acquire_as(
        &self,
        instance: &Instance,
        wanted: &[u8],
    ) -> Result<Vec<Holding>, StoreError> {
        check_lease(instance.live_for)?;
        let (caller, inner, wanted) = (Caller::of(instance), Arc::clone(&self.inner), json!(wanted));
        let given = self.write(move |connection| {
            Box::pin(async move { caller.acquire(connection, &inner.statements, &wanted).await })
        });
        given.await?
    }

    pub(crate) async fn release_as(&self, owner: &Owner, floors: &[Floor]) -> Result<(), StoreError> {
        if floors.is_empty() {
            return Ok(());
        }
        let release = of_owner(&self.inner.statements.release_partitions, owner).bind(told(floors));
        self.write(move |connection| Box::pin(async move { release.execute(connection).await })).await?;
        Ok(())
    }

    pub(crate) async fn leave_as(&self, owner: &Owner) -> Result<(), StoreError> {
        let leave = of_owner(&self.inner.statements.leave, owner);
        self.write(move |connection| Box::pin(async move { leave.execute(connection).await })).await?;
        Ok(())
    }
}

/// A statement whose first two values are the name and the incarnation of an owner.
fn of_owner(statement: &SqlStr, owner: &Owner) -> Query<'static, Sqlite, SqliteArguments> {
    sqlx::query(statement.clone()).bind(owner.name().to_owned()).bind(members::incarnation(owner))
}

fn told(floors: &[Floor]) -> String {
    let floors = floors.iter().map(|floor| json!([floor.partition, floor.epoch.0, floor.floor]));
    Value::from_iter(floors).to_string()
}

/// The instance that calls.
struct Caller {
    owner: Owner,
    is_named: bool,
    mode: Mode,
    live_for: i64,
}

impl Caller {
    fn of(instance: &Instance) -> Self {
        let Instance { owner, is_named, mode, live_for } = instance.clone();
        Self { owner, is_named, mode, live_for: micros(live_for) }
    }

    async fn join(
        &self,
        connection: &mut SqliteConnection,
        inner: &Inner,
    ) -> Result<Result<Vec<Holding>, StoreError>, sqlx::Error> {
        let statements = &inner.statements;
        let others = sqlx::query_scalar(statements.of_other_mode.clone()).bind(self.mode.to_string());
        let others: Vec<String> = others
            .bind(self.is_named)
            .bind(self.owner.name())
            .bind(members::incarnation(&self.owner))
            .fetch_all(&mut *connection)
            .await?;
        if !others.is_empty() {
            return Ok(Err(members::others_alive(self.mode, &others)));
        }
        if let Err(refused) = mode::switch(connection, inner, self.mode).await? {
            return Ok(Err(refused));
        }
        if self.is_named {
            of_owner(&statements.replace, &self.owner).execute(&mut *connection).await?;
        }
        self.register(connection, statements).await?;
        match self.mode {
            Mode::Claims => Ok(Ok(Vec::new())),
            Mode::Ownership => {
                let all = Value::from_iter(0..PARTITIONS);
                if self.is_named {
                    self.take_over(connection, statements, &all, Taking::ByName).await?;
                }
                self.extend(connection, statements, &all).await.map(Ok)
            }
        }
    }

    async fn beat(
        &self,
        connection: &mut SqliteConnection,
        statements: &Statements,
        floors: String,
    ) -> Result<Result<Pulse, StoreError>, sqlx::Error> {
        let standing = self.standing(connection, statements).await?;
        if standing.is_replaced {
            return Ok(Ok(Pulse { is_replaced: true, ..Pulse::default() }));
        }
        if let Err(refused) = check_mode(standing.mode, self.mode) {
            return Ok(Err(refused));
        }
        self.register(connection, statements).await?;
        let mut held = Vec::new();
        if self.mode == Mode::Ownership {
            of_owner(&statements.raise, &self.owner).bind(floors).execute(&mut *connection).await?;
            let renew = of_owner(&statements.renew_partitions, &self.owner).bind(self.live_for);
            held = holdings(renew.fetch_all(&mut *connection).await?)?;
        }
        let members = sqlx::query(statements.members.clone()).fetch_all(connection).await?;
        let members = members.iter().map(member).collect::<Result<_, _>>()?;
        Ok(Ok(Pulse { members, held, is_replaced: false }))
    }

    async fn acquire(
        &self,
        connection: &mut SqliteConnection,
        statements: &Statements,
        wanted: &Value,
    ) -> Result<Result<Vec<Holding>, StoreError>, sqlx::Error> {
        let standing = self.standing(connection, statements).await?;
        if let Err(refused) = check_mode(standing.mode, Mode::Ownership) {
            return Ok(Err(refused));
        }
        if standing.is_replaced {
            return Ok(Ok(Vec::new()));
        }
        self.take_over(connection, statements, wanted, Taking::Free).await?;
        self.extend(connection, statements, wanted).await.map(Ok)
    }

    async fn standing(
        &self,
        connection: &mut SqliteConnection,
        statements: &Statements,
    ) -> Result<Standing, sqlx::Error> {
        let mode = mode::stored(connection, statements).await?;
        let current = sqlx::query_scalar(statements.current.clone()).bind(self.owner.name());
        let current = current.bind(members::incarnation(&self.owner)).fetch_one(connection);
        let is_replaced = self.is_named && !current.await?;
        Ok(Standing { mode, is_replaced })
    }

    /// Makes the instance a member, and strikes off those whose time has ended.
    async fn register(
        &self,
        connection: &mut SqliteConnection,
        statements: &Statements,
    ) -> Result<(), sqlx::Error> {
        sqlx::query(statements.strike_off.clone()).execute(&mut *connection).await?;
        let register = of_owner(&statements.register, &self.owner);
        register.bind(self.mode.to_string()).bind(self.live_for).execute(connection).await?;
        Ok(())
    }

    /// Makes those of `wanted` that can be had the instance's own.
    async fn take_over(
        &self,
        connection: &mut SqliteConnection,
        statements: &Statements,
        wanted: &Value,
        taking: Taking,
    ) -> Result<(), sqlx::Error> {
        let take_over = of_owner(&statements.take_over, &self.owner).bind(wanted.to_string());
        take_over.bind(matches!(taking, Taking::ByName)).execute(connection).await?;
        Ok(())
    }

    /// Makes the leases of those of `wanted` that are the instance's own end later, and returns them.
    async fn extend(
        &self,
        connection: &mut SqliteConnection,
        statements: &Statements,
        wanted: &Value,
    ) -> Result<Vec<Holding>, sqlx::Error> {
        let extend = of_owner(&statements.extend, &self.owner).bind(self.live_for).bind(wanted.to_string());
        holdings(extend.fetch_all(connection).await?)
    }
}

/// Which partitions of others can be had.
enum Taking {
    /// Those that earlier incarnations of the name have left.
    ByName,
    /// Those that are free.
    Free,
}

/// What is known of a caller.
struct Standing {
    mode: Result<Mode, StoreError>,
    is_replaced: bool,
}

fn check_mode(mode: Result<Mode, StoreError>, needed: Mode) -> Result<(), StoreError> {
    if mode? == needed { Ok(()) } else { Err(members::wrong_mode(needed)) }
}

fn holdings(rows: Vec<SqliteRow>) -> Result<Vec<Holding>, sqlx::Error> {
    let mut holdings = rows.iter().map(holding).collect::<Result<Vec<_>, _>>()?;
    // RETURNING promises no order.
    holdings.sort_by_key(|holding| holding.partition);
    Ok(holdings)
}

fn holding(row: &SqliteRow) -> Result<Holding, sqlx::Error> {
    Ok(Holding {
        partition: row.try_get("event_partition")?,
        epoch: Epoch(row.try_get("epoch")?),
        floor: row.try_get("floor")?,
        crashes: row.try_get("crashes")?,
        suspect_to: row.try_get("suspect_to")?,
    })
}

fn member(row: &SqliteRow) -> Result<Member, sqlx::Error> {
    let (name, incarnation): (&str, &str) = (row.try_get("name")?, row.try_get("incarnation")?);
    let owner = members::owner(name, incarnation)
        .ok_or_else(|| sqlx::Error::Decode(format!("`{incarnation}` is not an incarnation").into()))?;
    Ok(Member { owner, joined_ago: span(row, "joined_ago")?, silent_for: span(row, "silent_for")? })
}
