//! Reading from partitions that are owned, and keys that are parked.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use pillarbox::store::{Blocked, Due, Epoch, Fetched, Mode, StoreError, Token, Visit};
use pillarbox_sql::members::adopted_by;
use pillarbox_sql::{in_records, rows};
use serde_json::{Value, json};
use sqlx::Row;
use sqlx::mysql::MySqlRow;

use crate::MySqlStore;
use crate::row::{key, taken, time, wait};
use crate::statements::{MOST_LISTED, MySqlQuery, Statements, Visited, bind_list};

/// What is fresh, and what was set aside.
const FRESH: i8 = 0;
const ASIDE: i8 = 2;

/// How many rows that have no partition get theirs at once.
const ADOPTED: i64 = 1_000;

/// The number and the key of a row that has no partition.
type Unplaced = (i64, Option<String>);

/// One range of an index.
#[derive(Clone, Copy)]
struct Range {
    /// `None` finds nothing.
    status: Option<i8>,
    /// `None` finds rows that have none.
    partition: Option<u8>,
    floor: i64,
    limit: i64,
}

impl MySqlStore {
    /// One statement, unless so much is in flight that it would be too long.
    pub(crate) async fn fetch_fresh(
        &self,
        visits: &[Visit],
        limit: usize,
    ) -> Result<Vec<Fetched>, StoreError> {
        if limit == 0 {
            return Ok(Vec::new());
        }
        let mut fetched = Vec::new();
        for visits in in_records(visits) {
            fetched.extend(self.fetch_above(visits, limit).await?);
        }
        // The parts were in order, each by itself.
        fetched.sort_by_key(|fetched| fetched.taken.lease.seq);
        Ok(fetched)
    }

    async fn fetch_above(&self, visits: &[Visit], limit: usize) -> Result<Vec<Fetched>, StoreError> {
        let mut ranges = ranges(visits, limit, |visit, seq| seq > visit.floor);
        for status in [FRESH, ASIDE] {
            ranges.push(Range { status: Some(status), partition: None, floor: i64::MIN, limit: ADOPTED });
        }
        loop {
            let found = self.look_into(|statements| &statements.fetch, &ranges, visits).await?;
            let (nowhere, found): (Vec<_>, Vec<_>) = self.placed(found)?;
            if nowhere.is_empty() || !self.adopt(&nowhere).await? {
                return self.fetched(&found, visits, limit);
            }
        }
    }

    pub(crate) async fn fetch_below(
        &self,
        visits: &[Visit],
        limit: usize,
    ) -> Result<Vec<Fetched>, StoreError> {
        if visits.is_empty() || limit == 0 {
            return Ok(Vec::new());
        }
        let ranges = ranges(visits, limit, |visit, seq| seq <= visit.floor);
        let found = self.look_into(|statements| &statements.below, &ranges, visits).await?;
        self.fetched(&found, visits, limit)
    }

    pub(crate) async fn fetch_due(&self, visits: &[Visit], limit: usize) -> Result<Due, StoreError> {
        if visits.is_empty() || limit == 0 {
            return Ok(Due::default());
        }
        // One more tells when the next is due.
        let limit_and_next = limit.saturating_add(1);
        let ranges: Arc<[Range]> = ranges(visits, limit_and_next, |_, _| true).into();
        let (statements, in_flight) = (Arc::clone(&self.inner), in_flight(visits));
        let found = self.read(move |_| {
            let (sql, room) = statements.statements.due.of(ranges.len());
            let query = filled(&ranges, room)
                .fold(sqlx::query(sql), |query, range| query.bind(range.partition).bind(range.limit));
            query.bind(in_flight.clone()).bind(rows(limit_and_next))
        });
        self.due_of(&found.await?, visits, limit).map_err(|error| self.inner.line.place.store(error))
    }

    pub(crate) async fn fetch_aside(
        &self,
        visit: &Visit,
        key: &str,
        limit: usize,
    ) -> Result<Vec<Fetched>, StoreError> {
        let visits = std::slice::from_ref(visit);
        let range = ranges(visits, limit, |_, _| true)[0];
        let (key, in_flight) = (key.to_owned(), in_flight(visits));
        let found = self.read(move |statements| {
            let query = sqlx::query(statements.aside_of.clone()).bind(range.partition).bind(key.clone());
            query.bind(range.limit).bind(in_flight.clone())
        });
        self.fetched(&found.await?, visits, limit)
    }

    pub(crate) async fn blocked_keys(&self, partitions: &[u8]) -> Result<Vec<Blocked>, StoreError> {
        let mut partitions = partitions.to_vec();
        partitions.sort_unstable();
        partitions.dedup();
        if partitions.is_empty() {
            return Ok(Vec::new());
        }
        let found = self.read(move |statements| {
            let query = sqlx::query(statements.blocked.of(partitions.len()));
            bind_list(bind_list(query, &partitions), &partitions)
        });
        merged(&found.await?).map_err(|error| self.inner.line.place.store(error))
    }

    pub(crate) async fn unpark_keys(&self, keys: &[String]) -> Result<u64, StoreError> {
        let mut skipped = 0;
        for keys in keys.chunks(MOST_LISTED) {
            let (inner, keys) = (Arc::clone(&self.inner), Arc::<[String]>::from(keys));
            let unparked = self.run(
                |inner| &inner.operating,
                move |connection| {
                    let (inner, keys) = (Arc::clone(&inner), Arc::clone(&keys));
                    Box::pin(async move {
                        let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
                        let query = sqlx::query(inner.statements.skip.of(keys.len()));
                        bind_list(query, &keys).execute(connection).await
                    })
                },
            );
            skipped += unparked.await?.rows_affected();
        }
        Ok(skipped)
    }

    /// What a statement finds in these ranges that the visitor has not got already.
    async fn look_into(
        &self,
        statement: fn(&Statements) -> &Visited,
        ranges: &[Range],
        visits: &[Visit],
    ) -> Result<Vec<MySqlRow>, StoreError> {
        let (ranges, in_flight) = (Arc::<[Range]>::from(ranges), in_flight(visits));
        self.read(move |statements| {
            let (sql, room) = statement(statements).of(ranges.len());
            let query = filled(&ranges, room).fold(sqlx::query(sql), |query, range| {
                query.bind(range.status).bind(range.partition).bind(range.floor).bind(range.limit)
            });
            query.bind(in_flight.clone())
        })
        .await
    }

    /// Runs a query that needs the indexes of owners.
    async fn read(
        &self,
        query: impl Fn(&Statements) -> MySqlQuery<'static> + Send + Sync + 'static,
    ) -> Result<Vec<MySqlRow>, StoreError> {
        let inner = Arc::clone(&self.inner);
        let found = self.run(
            |inner| &inner.taking,
            move |connection| {
                let query = query(&inner.statements);
                Box::pin(async move { query.fetch_all(connection).await })
            },
        );
        self.in_mode(Mode::Ownership, found.await).await
    }

    /// Those rows that have no partition, by number and key, and the others.
    fn placed(&self, found: Vec<MySqlRow>) -> Result<(Vec<Unplaced>, Vec<MySqlRow>), StoreError> {
        let mut nowhere = Vec::new();
        let mut placed = Vec::new();
        for row in found {
            let without = (|| match row.try_get("event_partition")? {
                Some::<u8>(_) => Ok(None),
                None => Ok(Some((row.try_get("seq")?, key(&row)?))),
            })();
            match without.map_err(|error| self.inner.line.place.store(error))? {
                None => placed.push(row),
                Some(without) => nowhere.push(without),
            }
        }
        Ok((nowhere, placed))
    }

    /// Gives rows the partition of their key, or one by their number, and returns whether any got one. Those that another
    /// transaction has locked wait for another time, and hold up nobody.
    async fn adopt(&self, nowhere: &[Unplaced]) -> Result<bool, StoreError> {
        let mut free = nowhere.to_vec();
        while !free.is_empty() {
            let adopted = free.iter().map(|(seq, key)| json!([seq, adopted_by(*seq, key.as_deref())]));
            let adopted = Value::Array(adopted.collect()).to_string();
            let adopt = self.inner.statements.adopt.clone();
            let numbers = free.iter().map(|(seq, _)| *seq).collect();
            let adopted = self.write_free(numbers, move |connection| {
                let query = sqlx::query(adopt.clone()).bind(adopted.clone());
                Box::pin(async move { query.execute(connection).await.map(drop) })
            });
            match adopted.await {
                Err(StoreError::Locked { numbers }) => free.retain(|(seq, _)| !numbers.contains(seq)),
                adopted => return adopted.map(|()| true),
            }
        }
        Ok(false)
    }

    /// Rows as their owner reads them, in the order of their numbers and at most `limit` of each partition.
    fn fetched(
        &self,
        found: &[MySqlRow],
        visits: &[Visit],
        limit: usize,
    ) -> Result<Vec<Fetched>, StoreError> {
        let epochs = epochs(visits);
        let fetched = found.iter().map(|row| fetched(row, &epochs)).collect::<Result<Vec<_>, _>>();
        let mut fetched = fetched.map_err(|error| self.inner.line.place.store(error))?;
        // A UNION promises no order.
        fetched.sort_by_key(|fetched| fetched.taken.lease.seq);
        let mut counts: HashMap<Token, usize> = HashMap::new();
        fetched.retain(|fetched| {
            let count = counts.entry(fetched.taken.lease.token).or_default();
            *count += 1;
            *count <= limit
        });
        Ok(fetched)
    }

    fn due_of(&self, found: &[MySqlRow], visits: &[Visit], limit: usize) -> Result<Due, sqlx::Error> {
        let epochs = epochs(visits);
        let mut due = Vec::new();
        let mut next_due_in: Option<Duration> = None;
        for row in found {
            if row.try_get::<Option<i64>, _>("seq")?.is_some() {
                due.push((time(row, "available_at")?, fetched(row, &epochs)?));
            } else if let Some(wait) = wait(row, "ready_in")? {
                next_due_in = Some(next_due_in.map_or(wait, |next| next.min(wait)));
            }
        }
        due.sort_by_key(|(available_at, fetched)| (*available_at, fetched.taken.lease.seq));
        due.truncate(limit);
        let next_due_in = next_due_in.filter(|_| due.len() < limit);
        Ok(Due { events: due.into_iter().map(|(_, fetched)| fetched).collect(), next_due_in })
    }
}

/// A range for each visit, with room for what the visitor has already and would be found.
fn ranges(visits: &[Visit], limit: usize, is_in_range: impl Fn(&Visit, i64) -> bool) -> Vec<Range> {
    let range = |visit: &Visit| {
        let known = visit.in_flight.iter().filter(|seq| is_in_range(visit, **seq)).count();
        let limit = rows(limit.saturating_add(known));
        Range { status: Some(FRESH), partition: Some(visit.partition), floor: visit.floor, limit }
    };
    visits.iter().map(range).collect()
}

/// The ranges, and those that fill the rest of a statement.
fn filled(ranges: &[Range], room: usize) -> impl Iterator<Item = Range> {
    let nothing = Range { status: None, partition: None, floor: 0, limit: 0 };
    let rest = std::iter::repeat_n(nothing, room.saturating_sub(ranges.len()));
    ranges.iter().copied().chain(rest)
}

/// What the visitor has already, as it is bound.
fn in_flight(visits: &[Visit]) -> String {
    let numbers: Vec<i64> = visits.iter().flat_map(|visit| visit.in_flight.iter().copied()).collect();
    Value::from(numbers).to_string()
}

fn epochs(visits: &[Visit]) -> HashMap<u8, Epoch> {
    visits.iter().map(|visit| (visit.partition, visit.epoch)).collect()
}

fn fetched(row: &MySqlRow, epochs: &HashMap<u8, Epoch>) -> Result<Fetched, sqlx::Error> {
    let partition = row.try_get("event_partition")?;
    let epoch = epochs.get(&partition).copied().unwrap_or_default();
    Ok(Fetched {
        taken: taken(row, Token::of_partition(partition, epoch))?,
        key: key(row)?,
        ready_in: wait(row, "ready_in")?.unwrap_or_default(),
    })
}

/// Keys that are held by what was set aside, and those that are parked, each once.
fn merged(found: &[MySqlRow]) -> Result<Vec<Blocked>, sqlx::Error> {
    let mut blocked: BTreeMap<(u8, String), Blocked> = BTreeMap::new();
    for row in found {
        let (partition, key) = (row.try_get("event_partition")?, key(row)?.unwrap_or_default());
        let entry = blocked.entry((partition, key.clone())).or_insert(Blocked {
            partition,
            key,
            first: None,
            ready_in: Duration::ZERO,
            parked_for: None,
        });
        match row.try_get("first")? {
            first @ Some(_) => {
                (entry.first, entry.ready_in) = (first, wait(row, "ready_in")?.unwrap_or_default())
            }
            None => entry.parked_for = row.try_get("parked_for")?,
        }
    }
    Ok(blocked.into_values().collect())
}
