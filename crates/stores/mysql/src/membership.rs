//! Who takes part, and who owns which partition.

mod partition;

use std::collections::BTreeSet;
use std::sync::Arc;

use pillarbox::store::{Floor, Holding, Instance, Member, Mode, Owner, Pulse, StoreError};
use pillarbox_sql::members::{self, incarnation};
use pillarbox_sql::{check_lease, micros};
use serde_json::{Value, json};
use sqlx::Row;
use sqlx::mysql::{MySqlConnection, MySqlRow};

use crate::MySqlStore;
use crate::migration::by_name;
use crate::mode::{self, Refusal, Stored};
use crate::row::wait;
use crate::statements::{Statements, bind_list};
use crate::store::Inner;
use partition::Partition;

/// How often a join changes the mode, when another process changes it back.
const CHANGES: u32 = 3;

impl MySqlStore {
    pub(crate) async fn join_as(&self, instance: &Instance) -> Result<Vec<Holding>, StoreError> {
        check_lease(instance.live_for)?;
        let mut refusal = None;
        for _ in 0..=CHANGES {
            match self.change_membership(instance, join).await? {
                Ok(given) => return Ok(given),
                Err(other_mode @ Refusal::OtherMode { .. }) => refusal = Some(other_mode),
                Err(refusal) => return Err(refusal.into_error(&self.inner.line.place)),
            }
            mode::change_to(self, instance.mode, Some(instance)).await?;
        }
        let refusal = refusal.map(|refusal| refusal.into_error(&self.inner.line.place));
        Err(refusal.unwrap_or_else(|| StoreError::unavailable("the mode of the outbox changes all the time")))
    }

    pub(crate) async fn beat_as(&self, instance: &Instance, floors: &[Floor]) -> Result<Pulse, StoreError> {
        check_lease(instance.live_for)?;
        let floors: Arc<[Floor]> = floors.into();
        let beaten = self.change_membership(instance, move |inner, connection, instance| {
            let floors = Arc::clone(&floors);
            Box::pin(async move { beat(inner, connection, instance, &floors).await })
        });
        let beaten = beaten.await.inspect_err(|_| {
            // It may be another server that answers next, which gives numbers again.
            self.inner.readings.forget();
        });
        beaten?.map_err(|refusal| refusal.into_error(&self.inner.line.place))
    }

    pub(crate) async fn acquire_as(
        &self,
        instance: &Instance,
        wanted: &[u8],
    ) -> Result<Vec<Holding>, StoreError> {
        check_lease(instance.live_for)?;
        let wanted: Arc<BTreeSet<u8>> = Arc::new(wanted.iter().copied().collect());
        let acquired = self.change_membership(instance, move |inner, connection, instance| {
            let wanted = Arc::clone(&wanted);
            Box::pin(async move { acquire(inner, connection, instance, &wanted).await })
        });
        acquired.await?.map_err(|refusal| refusal.into_error(&self.inner.line.place))
    }

    /// Does something about an instance in one transaction. Rows are locked in one order: the mode, then the instance,
    /// then partitions in the order of their numbers.
    async fn change_membership<T, W>(
        &self,
        instance: &Instance,
        work: W,
    ) -> Result<Result<T, Refusal>, StoreError>
    where
        T: Send + 'static,
        W: for<'c> Fn(&'c Inner, &'c mut MySqlConnection, &'c Instance) -> Work<'c, T>
            + Send
            + Sync
            + 'static,
    {
        let (inner, instance) = (Arc::clone(&self.inner), Arc::new(instance.clone()));
        let work = Arc::new(work);
        self.run_together(
            |inner| &inner.beating,
            move |connection| {
                let (inner, instance, work) = (Arc::clone(&inner), Arc::clone(&instance), Arc::clone(&work));
                Box::pin(async move { work(&inner, connection, &instance).await })
            },
        )
        .await
    }

    pub(crate) async fn give_back(&self, owner: &Owner, floors: &[Floor]) -> Result<(), StoreError> {
        let mut floors = floors.to_vec();
        floors.sort_unstable_by_key(|floor| floor.partition);
        let told = floors.iter().map(|told| json!([told.partition, told.epoch.0, told.floor])).collect();
        let (told, owner, give_back) =
            (Value::Array(told).to_string(), owner.clone(), self.inner.statements.give_back.clone());
        self.run(
            |inner| &inner.beating,
            move |connection| {
                let query = sqlx::query(give_back.clone()).bind(told.clone());
                let query = query.bind(owner.name().to_owned()).bind(incarnation(&owner));
                Box::pin(async move { query.execute(connection).await.map(drop) })
            },
        )
        .await
    }

    pub(crate) async fn strike_off(&self, owner: &Owner) -> Result<(), StoreError> {
        let (owner, leave) = (owner.clone(), self.inner.statements.leave.clone());
        self.run(
            |inner| &inner.beating,
            move |connection| {
                let query =
                    sqlx::query(leave.clone()).bind(owner.name().to_owned()).bind(incarnation(&owner));
                Box::pin(async move { query.execute(connection).await.map(drop) })
            },
        )
        .await
    }
}

/// What is done about an instance, and what it answers.
type Work<'c, T> = pillarbox::BoxFuture<'c, Result<Result<T, Refusal>, sqlx::Error>>;

/// Why an instance of `needed` may not go on, if the mode that is stored is another. It stays locked, by the statement that
/// says how.
async fn mode_refusal(
    connection: &mut MySqlConnection,
    statement: &sqlx::SqlStr,
    needed: Mode,
) -> Result<Option<Refusal>, sqlx::Error> {
    let stored: Option<String> = sqlx::query_scalar(statement.clone()).fetch_optional(connection).await?;
    let stored = Stored::read(stored.as_deref())?;
    Ok((stored != Stored::Is(needed)).then_some(Refusal::OtherMode { stored, needed }))
}

/// Whether another incarnation has taken the place of this instance.
async fn is_replaced(
    connection: &mut MySqlConnection,
    statements: &Statements,
    Instance { owner, is_named, .. }: &Instance,
) -> Result<bool, sqlx::Error> {
    if !is_named {
        return Ok(false);
    }
    let current = sqlx::query_scalar(statements.current.clone()).bind(owner.name()).bind(incarnation(owner));
    current.fetch_one(connection).await.map(|is_current: bool| !is_current)
}

fn join<'c>(
    inner: &'c Inner,
    connection: &'c mut MySqlConnection,
    instance: &'c Instance,
) -> Work<'c, Vec<Holding>> {
    Box::pin(async move {
        let Inner { statements, .. } = inner;
        let Instance { owner, is_named, mode, .. } = instance;
        let refusal = mode_refusal(connection, &statements.state_to_change, *mode).await?;
        let replaced = is_named.then(|| owner.name());
        let names = mode::others_alive(connection, statements, *mode, replaced).await?;
        if !names.is_empty() {
            return Ok(Err(Refusal::OthersAlive { names, needed: *mode }));
        }
        if let Some(refusal) = refusal {
            return Ok(Err(refusal));
        }
        if *mode == Mode::Ownership
            && let Some(increment) = mode::increment(connection, statements).await?
        {
            return Ok(Err(Refusal::Increment(increment)));
        }
        if *is_named {
            let replace = sqlx::query(statements.replace.clone()).bind(owner.name()).bind(incarnation(owner));
            replace.execute(&mut *connection).await?;
        }
        sqlx::query(statements.strike_off.clone()).execute(&mut *connection).await?;
        register(connection, statements, instance).await?;
        let left = left_to(connection, statements, instance).await?;
        let partitions = lock(connection, statements, &left).await?;
        give(inner, connection, instance, partitions).await.map(Ok)
    })
}

async fn beat(
    inner: &Inner,
    connection: &mut MySqlConnection,
    instance: &Instance,
    floors: &[Floor],
) -> Result<Result<Pulse, Refusal>, sqlx::Error> {
    let Inner { statements, .. } = inner;
    let Instance { owner, mode, .. } = instance;
    let refusal = mode_refusal(connection, &statements.state, *mode).await?;
    if is_replaced(connection, statements, instance).await? {
        return Ok(Ok(Pulse { is_replaced: true, ..Pulse::default() }));
    }
    if let Some(refusal) = refusal {
        return Ok(Err(refusal));
    }
    register(connection, statements, instance).await?;
    let own = own(connection, statements, owner).await?;
    let own = own.into_iter().filter(|(_, of)| *of == incarnation(owner)).map(|(partition, _)| partition);
    let mut held = lock(connection, statements, &own.collect()).await?;
    held.retain(|partition| partition.is_held_by(owner));
    for partition in &mut held {
        floors.iter().for_each(|floor| partition.raise(floor));
    }
    absolve(connection, statements, &mut held).await?;
    let held = give(inner, connection, instance, held).await?;
    let members = sqlx::query(statements.members.clone()).fetch_all(connection).await?;
    let mut members = members.iter().map(member).collect::<Result<Vec<_>, _>>()?;
    members.sort_by(|one, other| one.owner.cmp(&other.owner));
    Ok(Ok(Pulse { members, held, is_replaced: false }))
}

async fn acquire(
    inner: &Inner,
    connection: &mut MySqlConnection,
    instance: &Instance,
    wanted: &BTreeSet<u8>,
) -> Result<Result<Vec<Holding>, Refusal>, sqlx::Error> {
    let Inner { statements, .. } = inner;
    if let Some(refusal) = mode_refusal(connection, &statements.state, Mode::Ownership).await? {
        return Ok(Err(refusal));
    }
    if is_replaced(connection, statements, instance).await? {
        return Ok(Ok(Vec::new()));
    }
    let mut to_be_had = lock(connection, statements, wanted).await?;
    to_be_had.retain(|partition| partition.is_free || partition.is_held_by(&instance.owner));
    give(inner, connection, instance, to_be_had).await.map(Ok)
}

async fn register(
    connection: &mut MySqlConnection,
    statements: &Statements,
    Instance { owner, mode, live_for, .. }: &Instance,
) -> Result<(), sqlx::Error> {
    let (mode, live_for) = (mode.to_string(), micros(*live_for));
    let register = sqlx::query(statements.register.clone()).bind(owner.name()).bind(incarnation(owner));
    let register = register.bind(mode.clone()).bind(live_for).bind(mode).bind(live_for);
    register.execute(connection).await.map(drop)
}

/// The partitions of all incarnations of a name, with the incarnation, as they are without a lock.
async fn own(
    connection: &mut MySqlConnection,
    statements: &Statements,
    owner: &Owner,
) -> Result<Vec<(u8, String)>, sqlx::Error> {
    let own = sqlx::query(statements.own.clone()).bind(owner.name()).fetch_all(connection).await?;
    own.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).collect()
}

/// The partitions that are an instance's own, or that earlier incarnations have left to it.
async fn left_to(
    connection: &mut MySqlConnection,
    statements: &Statements,
    Instance { owner, is_named, .. }: &Instance,
) -> Result<BTreeSet<u8>, sqlx::Error> {
    let own = own(connection, statements, owner).await?;
    let left = own.into_iter().filter(|(_, of)| *is_named || *of == incarnation(owner));
    Ok(left.map(|(partition, _)| partition).collect())
}

/// Locks partitions, in the order of their numbers.
async fn lock(
    connection: &mut MySqlConnection,
    statements: &Statements,
    partitions: &BTreeSet<u8>,
) -> Result<Vec<Partition>, sqlx::Error> {
    if partitions.is_empty() {
        return Ok(Vec::new());
    }
    let numbers: Vec<u8> = partitions.iter().copied().collect();
    let lock = bind_list(sqlx::query(statements.lock_partitions.of(numbers.len())), &numbers);
    lock.fetch_all(connection).await?.iter().map(Partition::read).collect()
}

/// Makes an instance the owner of partitions that are locked, for as long as it says.
async fn give(
    inner: &Inner,
    connection: &mut MySqlConnection,
    Instance { owner, live_for, .. }: &Instance,
    mut partitions: Vec<Partition>,
) -> Result<Vec<Holding>, sqlx::Error> {
    if partitions.is_empty() {
        return Ok(Vec::new());
    }
    if !partitions.iter().all(|partition| partition.is_held_by(owner)) {
        let highest =
            by_name(inner, &inner.statements.highest, "outbox_event").fetch_one(&mut *connection).await?;
        let highest = highest.try_get::<Option<i64>, _>(0)?.unwrap_or(0);
        partitions.iter_mut().for_each(|partition| partition.pass_to(owner, highest));
    }
    let given = partitions.iter().map(Partition::to_json).collect();
    let give = sqlx::query(inner.statements.give.clone()).bind(Value::Array(given).to_string());
    let give = give.bind(owner.name()).bind(incarnation(owner)).bind(micros(*live_for));
    give.execute(connection).await?;
    Ok(partitions.iter().map(Partition::holding).collect())
}

/// Takes suspicion from those partitions that have come past it and have nothing set aside that is suspect.
async fn absolve(
    connection: &mut MySqlConnection,
    statements: &Statements,
    partitions: &mut [Partition],
) -> Result<(), sqlx::Error> {
    let mut past: Vec<&mut Partition> =
        partitions.iter_mut().filter(|partition| partition.is_past()).collect();
    if past.is_empty() {
        return Ok(());
    }
    let suspected = past.iter().map(|partition| json!([partition.number, partition.suspect_to])).collect();
    let clear = sqlx::query_scalar(statements.clear.clone()).bind(Value::Array(suspected).to_string());
    let clear: Vec<i32> = clear.fetch_all(connection).await?;
    let absolved = past.iter_mut().filter(|partition| clear.contains(&i32::from(partition.number)));
    absolved.for_each(|partition| partition.crashes = 0);
    Ok(())
}

fn member(row: &MySqlRow) -> Result<Member, sqlx::Error> {
    let (name, incarnation): (String, String) = (row.try_get("owner")?, row.try_get("incarnation")?);
    let unreadable = || sqlx::Error::Decode(format!("`{incarnation}` is no incarnation of `{name}`").into());
    Ok(Member {
        owner: members::owner(&name, &incarnation).ok_or_else(unreadable)?,
        joined_ago: wait(row, "joined_ago")?.unwrap_or_default(),
        silent_for: wait(row, "silent_for")?.unwrap_or_default(),
    })
}
