//! Who takes part, and who owns which partition.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use pillarbox::store::{Epoch, Floor, Holding, Instance, Member, Mode, Owner, Pulse, StoreError};
use pillarbox_sql::members::{self, incarnation};
use pillarbox_sql::{check_lease, micros};
use sqlx::Row;
use sqlx::postgres::{PgConnection, PgRow};

use crate::PostgresStore;
use crate::lane::Manner;
use crate::mode::{self, Change, Obstacle};
use crate::row::partition;
use crate::store::{Inner, Query};
use crate::time::Instant;

impl PostgresStore {
    pub(crate) async fn join_as(&self, instance: &Instance) -> Result<Vec<Holding>, StoreError> {
        check_lease(instance.live_for)?;
        let instance = Arc::new(instance.clone());
        // Whoever joins will take and settle: these connections are made meanwhile.
        let (joined, ()) = tokio::join!(self.enter_in_any_mode(&instance), self.connect_ahead());
        joined
    }

    async fn enter_in_any_mode(&self, instance: &Arc<Instance>) -> Result<Vec<Holding>, StoreError> {
        let joined = match self.enter_as(instance, Change::Forbidden).await? {
            Err(Obstacle::OtherMode(_)) => self.changed(self.enter_as(instance, Change::Allowed).await)?,
            joined => joined,
        };
        Ok(joined?)
    }

    async fn connect_ahead(&self) {
        let Inner { line, taking, settling, .. } = &*self.inner;
        tokio::join!(taking.connect_ahead(line), settling.connect_ahead(line));
    }

    async fn enter_as(
        &self,
        instance: &Arc<Instance>,
        change: Change,
    ) -> Result<Result<Vec<Holding>, Obstacle>, StoreError> {
        let (inner, instance) = (Arc::clone(&self.inner), Arc::clone(instance));
        let manner = match change {
            Change::Allowed => Manner::Patiently,
            Change::Forbidden => Manner::Together,
        };
        self.steps(
            |inner| &inner.beating,
            manner,
            move |connection| {
                let (inner, instance) = (Arc::clone(&inner), Arc::clone(&instance));
                Box::pin(async move { enter(&inner, connection, &instance, change).await })
            },
        )
        .await
    }

    pub(crate) async fn beat_as(&self, instance: &Instance, floors: &[Floor]) -> Result<Pulse, StoreError> {
        check_lease(instance.live_for)?;
        let (asking, told) = (instance.clone(), Floors::of(floors));
        let before = self.server.forget();
        let answer = self.rows(
            |inner| &inner.beating,
            move |inner| {
                let query = of_instance(inner.query(&inner.statements.beat), &asking);
                told.bind(query.bind(asking.mode.to_string())).bind(asking.is_named).bind(before)
            },
        );
        let answer = answer.await?;
        let Some(first) = answer.first() else { return Ok(Pulse::default()) };
        self.server.compare(before, self.read(first.try_get("server_started_at"))?)?;
        if !self.read(first.try_get("is_current"))? {
            return Ok(Pulse { is_replaced: true, ..Pulse::default() });
        }
        self.check_mode(first, instance.mode)?;
        self.read(pulse(&answer))
    }

    pub(crate) async fn acquire_as(
        &self,
        instance: &Instance,
        wanted: &[u8],
    ) -> Result<Vec<Holding>, StoreError> {
        check_lease(instance.live_for)?;
        let asking = instance.clone();
        let wanted: Vec<i16> = wanted.iter().copied().map(i16::from).collect();
        let given = self.rows(
            |inner| &inner.beating,
            move |inner| {
                of_instance(inner.query(&inner.statements.acquire), &asking)
                    .bind(&wanted)
                    .bind(asking.is_named)
            },
        );
        let given = given.await?;
        if let Some(first) = given.first() {
            self.check_mode(first, Mode::Ownership)?;
        }
        self.read(holdings(&given))
    }

    pub(crate) async fn release_as(&self, owner: &Owner, floors: &[Floor]) -> Result<(), StoreError> {
        let (owner, told) = (owner.clone(), Floors::of(floors));
        let released = self.rows(
            |inner| &inner.beating,
            move |inner| told.bind(of_owner(inner.query(&inner.statements.release), &owner)),
        );
        released.await.map(drop)
    }

    pub(crate) async fn leave_as(&self, owner: &Owner) -> Result<(), StoreError> {
        let owner = owner.clone();
        let left = self.rows(
            |inner| &inner.beating,
            move |inner| of_owner(inner.query(&inner.statements.leave), &owner),
        );
        left.await.map(drop)
    }

    /// Fails if the mode that a statement found is not the one that it is a statement of.
    pub(crate) fn check_mode(&self, row: &PgRow, needed: Mode) -> Result<(), StoreError> {
        let found = members::mode(Some(self.read(row.try_get("mode"))?))?;
        if found == needed { Ok(()) } else { Err(members::wrong_mode(needed)) }
    }
}

/// When the server was started that an instance has heard of last. A failover can be over between two heartbeats, and a
/// pooler hides that the session is another.
#[derive(Default)]
pub(crate) struct KnownServer(Mutex<Option<Instant>>);

impl KnownServer {
    /// What was known; nothing from now on, as after a heartbeat that fails.
    fn forget(&self) -> Option<Instant> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Fails once if it is another server than `before`, which may have taken commits back.
    fn compare(&self, before: Option<Instant>, now: Instant) -> Result<(), StoreError> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(now);
        match before {
            Some(before) if before != now => Err(StoreError::unavailable(
                "the server was started anew, or is another, since the last heartbeat",
            )),
            _ => Ok(()),
        }
    }
}

/// Makes the instance a member, and gives it what is its own.
async fn enter(
    inner: &Inner,
    connection: &mut PgConnection,
    instance: &Instance,
    change: Change,
) -> Result<Result<Vec<Holding>, Obstacle>, sqlx::Error> {
    if let Err(obstacle) = mode::enter(inner, connection, instance.mode, Some(instance), change).await? {
        return Ok(Err(obstacle));
    }
    let Instance { owner, is_named, mode, .. } = instance;
    let statements = &inner.statements;
    if *is_named {
        of_owner(inner.query(&statements.replace), owner).execute(&mut *connection).await?;
    }
    inner.query(&statements.strike_off_ended).execute(&mut *connection).await?;
    let register = of_instance(inner.query(&statements.register), instance).bind(mode.to_string());
    register.execute(&mut *connection).await?;
    let inherit = of_instance(inner.query(&statements.inherit), instance).bind(is_named);
    holdings(&inherit.fetch_all(connection).await?).map(Ok)
}

fn of_owner(query: Query, owner: &Owner) -> Query {
    query.bind(owner.name().to_owned()).bind(incarnation(owner))
}

fn of_instance(query: Query, instance: &Instance) -> Query {
    of_owner(query, &instance.owner).bind(micros(instance.live_for))
}

/// Floors in columns.
#[derive(Default)]
struct Floors {
    partitions: Vec<i16>,
    epochs: Vec<i64>,
    floors: Vec<i64>,
}

impl Floors {
    fn of(told: &[Floor]) -> Self {
        let mut columns = Self::default();
        for &Floor { partition, epoch, floor } in told {
            columns.partitions.push(i16::from(partition));
            columns.epochs.push(epoch.0);
            columns.floors.push(floor);
        }
        columns
    }

    fn bind(&self, query: Query) -> Query {
        query.bind(&self.partitions).bind(&self.epochs).bind(&self.floors)
    }
}

/// Members and holdings, each in their order; RETURNING promises none.
fn pulse(rows: &[PgRow]) -> Result<Pulse, sqlx::Error> {
    let mut members = rows.iter().filter_map(|row| member(row).transpose()).collect::<Result<Vec<_>, _>>()?;
    members.sort_by(|one, other| one.owner.cmp(&other.owner));
    Ok(Pulse { members, held: holdings(rows)?, is_replaced: false })
}

/// The member of this row, if it has one.
fn member(row: &PgRow) -> Result<Option<Member>, sqlx::Error> {
    let Some(name) = row.try_get::<Option<&str>, _>("name")? else { return Ok(None) };
    let now: Instant = row.try_get("now")?;
    let since = |column| row.try_get(column).map(|at: Instant| Duration::from_micros(now.micros_since(at)));
    let incarnation = row.try_get("incarnation")?;
    let owner = members::owner(name, incarnation).ok_or_else(|| {
        sqlx::Error::Decode(
            format!("the instance `{name}` has the incarnation `{incarnation}`, which is none").into(),
        )
    })?;
    Ok(Some(Member { owner, joined_ago: since("joined_at")?, silent_for: since("seen_at")? }))
}

/// The holdings in these rows, by partition.
fn holdings(rows: &[PgRow]) -> Result<Vec<Holding>, sqlx::Error> {
    let mut holdings =
        rows.iter().filter_map(|row| holding(row).transpose()).collect::<Result<Vec<_>, _>>()?;
    holdings.sort_by_key(|holding| holding.partition);
    Ok(holdings)
}

/// The holding of this row, if it has one.
fn holding(row: &PgRow) -> Result<Option<Holding>, sqlx::Error> {
    let Some(partition) = partition(row)? else { return Ok(None) };
    Ok(Some(Holding {
        partition,
        epoch: Epoch(row.try_get("epoch")?),
        floor: row.try_get("floor")?,
        crashes: row.try_get::<i32, _>("crashes")?.unsigned_abs(),
        suspect_to: row.try_get("suspect_to")?,
    }))
}
