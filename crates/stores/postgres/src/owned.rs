//! Reading from partitions that are owned.

mod sweep;

pub(crate) use self::sweep::Sweep;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use pillarbox::store::{Blocked, Due, Fetched, Mode, StoreError, Taken, Token, Visit};
use pillarbox_sql::members::adopted_by;
use pillarbox_sql::{in_records, rows};
use sqlx::Row;
use sqlx::postgres::{PgConnection, PgRow};

use crate::PostgresStore;
use crate::row::{aside_for, partition, ready_in, taken};
use crate::store::Inner;
use crate::time::Instant;

/// How many rows without a partition get theirs by one statement.
const PLACED_AT_ONCE: usize = 1_000;

/// How many numbers above its floor are looked through of each partition at once: the index has what is done as well.
const SPAN: i64 = 1_000_000;

/// How often a fetch finds rows without a partition before it gives up.
const ROUNDS: usize = 100;

impl PostgresStore {
    /// One statement, unless so much is in flight that it would be too long, or a floor lies far below the numbers that are
    /// given now.
    pub(crate) async fn read_above(
        &self,
        visits: &[Visit],
        limit: usize,
    ) -> Result<Vec<Fetched>, StoreError> {
        let mut fetched = Vec::new();
        for visits in in_records(visits) {
            fetched.extend(self.read_spans_above(visits, limit).await?);
        }
        Ok(first_of_each(fetched, limit))
    }

    /// A span of numbers after the other: no statement shall step over all that is done.
    async fn read_spans_above(&self, visits: &[Visit], limit: usize) -> Result<Vec<Fetched>, StoreError> {
        let mut open = visits.to_vec();
        let mut fetched: Vec<Fetched> = Vec::new();
        while !open.is_empty() {
            let span = Visits::of(&open, |visit| (visit.floor, visit.floor.saturating_add(SPAN)));
            let (read, highest) = self.read_fresh(span, limit).await?;
            fetched.extend(read);
            open.retain_mut(|visit| {
                visit.floor = visit.floor.saturating_add(SPAN);
                visit.floor < highest && fetched.iter().filter(|event| is_of(event, visit)).count() < limit
            });
        }
        Ok(fetched)
    }

    pub(crate) async fn read_up_to(
        &self,
        visits: &[Visit],
        limit: usize,
    ) -> Result<Vec<Fetched>, StoreError> {
        let spans = self.inner.sweep.next(visits);
        let (read, _) = self.read_fresh(Visits::of(visits, |visit| spans.of(visit)), limit).await?;
        self.inner.sweep.ended(&spans, visits, &read, limit);
        Ok(first_of_each(read, limit))
    }

    /// What is fresh, and the highest number that was given before. Rows without a partition, or with a number that is none,
    /// get theirs before; there are none, unless triggers were off when they were written.
    async fn read_fresh(&self, visits: Visits, limit: usize) -> Result<(Vec<Fetched>, i64), StoreError> {
        let visits = Arc::new(visits);
        for _ in 0..ROUNDS {
            let asked = Arc::clone(&visits);
            let read = self.rows(
                |inner| &inner.taking,
                move |inner| {
                    let query = inner.query(&inner.statements.fresh).bind(&asked.partitions);
                    let query = query.bind(&asked.above).bind(&asked.up_to).bind(&asked.in_flight);
                    query.bind(rows(limit))
                },
            );
            let read = read.await?;
            let Some(first) = read.first() else { break };
            self.check_mode(first, Mode::Ownership)?;
            if !self.read(first.try_get("has_unplaced"))? {
                let highest = self.read(first.try_get("highest"))?;
                return Ok((self.read(visits.fetched(&read))?, highest));
            }
            self.place_unplaced().await?;
        }
        Err(StoreError::unavailable("rows without a partition are written faster than they get theirs"))
    }

    async fn place_unplaced(&self) -> Result<(), StoreError> {
        let inner = Arc::clone(&self.inner);
        self.run(
            |inner| &inner.taking,
            move |connection| {
                let inner = Arc::clone(&inner);
                Box::pin(async move { place_all(&inner, connection).await })
            },
        )
        .await
    }

    pub(crate) async fn read_due(&self, visits: &[Visit], limit: usize) -> Result<Due, StoreError> {
        let visits = Arc::new(Visits::of(visits, |visit| (visit.floor, i64::MAX)));
        let asked = Arc::clone(&visits);
        let read = self.rows(
            |inner| &inner.taking,
            move |inner| {
                let query = inner.query(&inner.statements.due).bind(&asked.partitions);
                query.bind(&asked.in_flight).bind(rows(limit))
            },
        );
        let read = read.await?;
        let Some(first) = read.first() else { return Ok(Due::default()) };
        self.check_mode(first, Mode::Ownership)?;
        self.read(due(&visits, &read))
    }

    pub(crate) async fn read_aside_of(
        &self,
        visit: &Visit,
        key: &str,
        limit: usize,
    ) -> Result<Vec<Fetched>, StoreError> {
        let (asked, key) = (visit.clone(), key.to_owned());
        let read = self.rows(
            |inner| &inner.taking,
            move |inner| {
                let query = inner.query(&inner.statements.aside_of).bind(i16::from(asked.partition));
                query.bind(&key).bind(&asked.in_flight).bind(rows(limit))
            },
        );
        let read = read.await?;
        if let Some(first) = read.first() {
            self.check_mode(first, Mode::Ownership)?;
        }
        let visits = Visits::of(std::slice::from_ref(visit), |visit| (visit.floor, i64::MAX));
        let mut fetched = self.read(visits.fetched(&read))?;
        fetched.sort_by_key(|fetched| fetched.taken.lease.seq);
        Ok(fetched)
    }

    pub(crate) async fn read_blocked(&self, partitions: &[u8]) -> Result<Vec<Blocked>, StoreError> {
        let mut asked: Vec<i16> = partitions.iter().copied().map(i16::from).collect();
        asked.sort_unstable();
        asked.dedup();
        let read = self
            .rows(|inner| &inner.taking, move |inner| inner.query(&inner.statements.blocked).bind(&asked));
        let read = read.await?;
        if let Some(first) = read.first() {
            self.check_mode(first, Mode::Ownership)?;
        }
        self.read(blocked(&read))
    }

    pub(crate) async fn count_start(
        &self,
        Taken { event_id, lease, .. }: &Taken,
    ) -> Result<bool, StoreError> {
        let Some((partition, epoch)) = lease.token.partition() else { return Ok(false) };
        let event_id = event_id.clone();
        let (seq, starts) = (lease.seq, i32::try_from(lease.starts).unwrap_or(i32::MAX - 1));
        let started = self.execute(
            |inner| &inner.settling,
            move |inner| {
                let query = inner.query(&inner.statements.start).bind(seq).bind(i16::from(partition));
                query.bind(epoch.0).bind(&event_id).bind(starts)
            },
        );
        Ok(started.await? == 1)
    }

    pub(crate) async fn skip_keys(&self, keys: &[String]) -> Result<u64, StoreError> {
        let keys = keys.to_vec();
        self.execute(|inner| &inner.operating, move |inner| inner.query(&inner.statements.skip).bind(&keys))
            .await
    }
}

/// Whether an event was read from this partition.
fn is_of(fetched: &Fetched, visit: &Visit) -> bool {
    fetched.taken.lease.token.partition() == Some((visit.partition, visit.epoch))
}

/// The first events of each partition, at most `limit`, in the order of their numbers.
fn first_of_each(mut fetched: Vec<Fetched>, limit: usize) -> Vec<Fetched> {
    fetched.sort_by_key(|fetched| fetched.taken.lease.seq);
    let mut brought: HashMap<Token, usize> = HashMap::new();
    fetched.retain(|fetched| {
        let count = brought.entry(fetched.taken.lease.token).or_default();
        *count += 1;
        *count <= limit
    });
    fetched
}

/// Gives every row without a partition, or with a number that is none, its own.
pub(crate) async fn place_all(inner: &Inner, connection: &mut PgConnection) -> Result<(), sqlx::Error> {
    loop {
        let unplaced = inner.query(&inner.statements.unplaced).bind(rows(PLACED_AT_ONCE));
        let unplaced = unplaced.fetch_all(&mut *connection).await?;
        let (mut seqs, mut partitions) = (Vec::new(), Vec::new());
        for row in &unplaced {
            let seq: i64 = row.try_get("seq")?;
            seqs.push(seq);
            partitions.push(i16::from(adopted_by(seq, row.try_get("event_key")?)));
        }
        if !seqs.is_empty() {
            let place = inner.query(&inner.statements.place).bind(seqs).bind(partitions);
            place.execute(&mut *connection).await?;
        }
        if unplaced.len() < PLACED_AT_ONCE {
            return Ok(());
        }
    }
}

/// Visits in columns, and what marks that which is read.
struct Visits {
    partitions: Vec<i16>,
    above: Vec<i64>,
    up_to: Vec<i64>,
    in_flight: Vec<i64>,
    tokens: HashMap<u8, Token>,
}

impl Visits {
    /// Visits to numbers above the first of `bounds` and up to the second.
    fn of(visits: &[Visit], bounds: impl Fn(&Visit) -> (i64, i64)) -> Self {
        let (above, up_to) = visits.iter().map(bounds).unzip();
        let token = |visit: &Visit| (visit.partition, Token::of_partition(visit.partition, visit.epoch));
        Self {
            partitions: visits.iter().map(|visit| i16::from(visit.partition)).collect(),
            above,
            up_to,
            in_flight: visits.iter().flat_map(|visit| visit.in_flight.iter().copied()).collect(),
            tokens: visits.iter().map(token).collect(),
        }
    }

    /// The events in these rows.
    fn fetched(&self, rows: &[PgRow]) -> Result<Vec<Fetched>, sqlx::Error> {
        rows.iter().filter_map(|row| self.fetch(row).transpose()).collect()
    }

    /// The event in this row, if there is one.
    fn fetch(&self, row: &PgRow) -> Result<Option<Fetched>, sqlx::Error> {
        let token = partition(row)?.and_then(|partition| self.tokens.get(&partition));
        let Some(&token) = token else { return Ok(None) };
        Ok(Some(Fetched {
            taken: taken(row, token)?,
            key: row.try_get("event_key")?,
            ready_in: ready_in(row)?,
        }))
    }
}

fn due(visits: &Visits, rows: &[PgRow]) -> Result<Due, sqlx::Error> {
    let mut ranked = Vec::new();
    for row in rows {
        if let Some(fetched) = visits.fetch(row)? {
            let available_at: Instant = row.try_get("available_at")?;
            ranked.push((available_at, fetched));
        }
    }
    ranked.sort_by_key(|(available_at, fetched)| (*available_at, fetched.taken.lease.seq));
    let events = ranked.into_iter().map(|(_, fetched)| fetched).collect();
    let Some(first) = rows.first() else { return Ok(Due::default()) };
    let (now, next): (Instant, Option<Instant>) = (first.try_get("now")?, first.try_get("next_due_at")?);
    Ok(Due { events, next_due_in: next.map(|next| Duration::from_micros(next.micros_since(now))) })
}

/// Keys that are held, and keys that are parked: each once, by partition and key.
fn blocked(rows: &[PgRow]) -> Result<Vec<Blocked>, sqlx::Error> {
    let mut all: BTreeMap<(u8, String), Blocked> = BTreeMap::new();
    for row in rows {
        let Some(partition) = partition(row)? else { continue };
        let key: String = row.try_get("event_key")?;
        let unblocked =
            Blocked { partition, key: key.clone(), first: None, ready_in: Duration::ZERO, parked_for: None };
        let entry = all.entry((partition, key)).or_insert(unblocked);
        match row.try_get("parked_for")? {
            Some(parked_for) => entry.parked_for = Some(parked_for),
            None => {
                entry.first = row.try_get("seq")?;
                entry.ready_in = aside_for(row.try_get("available_at")?, row.try_get("now")?);
            }
        }
    }
    Ok(all.into_values().collect())
}
