//! Settlements by the statement that applies them, in columns.

use std::collections::BTreeSet;

use pillarbox::store::{
    DELAYED, DoneRows, Lease, Outcome, REPLAYED, Settlement, Status, StoreError, Token, cut_error,
};
use pillarbox_sql::{counted, kept, micros, refusal};
use sqlx::postgres::PgConnection;
use sqlx::{Row, SqlStr};

use super::{Leases, leases_of};
use crate::store::{Inner, Query};

/// How many bytes the rows of one statement come to at most, so that it fits into one record of TLS (16 KiB) with all else.
/// A longer one is sent in several pieces, and each but the first waits for the server to acknowledge the one before, which
/// that puts off for up to 40 ms: the driver does not set `TCP_NODELAY`.
const DONE_IN_BYTES: usize = 16_000;
/// What a row that is done takes of them beside the text of its id: number, token and partition, and four lengths.
const DONE_ROW: usize = 12 + 12 + 6 + 4;
/// How many rows that are not done one statement settles, which say more.
const OTHERS_AT_ONCE: usize = 100;

/// Leases in columns, by number: rows are locked in this order by all, so that no two lock each other out.
#[derive(Default)]
pub(super) struct Numbers {
    pub(super) seqs: Vec<i64>,
    pub(super) tokens: Vec<i64>,
    /// Of leases under the token of a partition.
    event_ids: Vec<String>,
}

impl Numbers {
    pub(super) fn new<'a>(leases: impl Iterator<Item = &'a Lease>) -> Self {
        let mut leases: Vec<&Lease> = leases.collect();
        leases.sort_by_key(|lease| lease.seq);
        let mut numbers = Self::default();
        leases.into_iter().for_each(|lease| numbers.push(lease));
        numbers
    }

    /// Those of settlements in the order of their numbers.
    fn of(settlements: &[&Settlement]) -> Self {
        let mut numbers = Self::default();
        settlements.iter().for_each(|settlement| numbers.add(settlement));
        numbers
    }

    fn push(&mut self, lease: &Lease) {
        self.seqs.push(lease.seq);
        self.tokens.push(lease.token.0);
    }

    fn add(&mut self, Settlement { event_id, lease, .. }: &Settlement) {
        self.push(lease);
        if lease.token.partition().is_some() {
            self.event_ids.push(event_id.clone());
        }
    }

    fn is_empty(&self) -> bool {
        self.seqs.is_empty()
    }

    /// Binds leases under the tokens of partitions. (Ids are compared in a way that has no index: rows are found by their
    /// numbers.)
    fn owned(&self, query: Query) -> Query {
        query.bind(&self.seqs).bind(&self.tokens).bind(&self.event_ids)
    }

    /// Marks as done, or deletes, what is still under the tokens of its partitions, and returns the leases of that.
    async fn finish(
        &self,
        inner: &Inner,
        connection: &mut PgConnection,
        rows: DoneRows,
    ) -> Result<Leases, sqlx::Error> {
        let done = match rows {
            DoneRows::Keep => &inner.statements.owned_done,
            DoneRows::Delete => &inner.statements.owned_delete,
        };
        let row = self.owned(inner.query(done)).bind(self.fences().0).fetch_one(connection).await?;
        let settled: (Option<Vec<i64>>, Option<Vec<i64>>) = (row.try_get("seqs")?, row.try_get("tokens")?);
        Ok(match settled {
            (None, None) => self.leases().collect(),
            (seqs, tokens) => seqs.into_iter().flatten().zip(tokens.into_iter().flatten()).collect(),
        })
    }

    fn leases(&self) -> impl Iterator<Item = (i64, i64)> {
        self.seqs.iter().copied().zip(self.tokens.iter().copied())
    }

    /// Each partition and epoch once.
    fn fences(&self) -> (Vec<i16>, Vec<i64>) {
        let fence = |&token: &i64| Token(token).partition().map(|(of, epoch)| (i16::from(of), epoch.0));
        let fences: BTreeSet<(i16, i64)> = self.tokens.iter().filter_map(fence).collect();
        fences.into_iter().unzip()
    }
}

/// Settlements by the statement that applies them.
#[derive(Default)]
pub(super) struct Sorted {
    done: Numbers,
    fell_back: FellBack,
    others: Others,
    /// In parts.
    owned_done: Vec<Numbers>,
    owned_fell_back: Vec<FellBack>,
    owned_others: Vec<Others>,
}

impl Sorted {
    pub(super) fn new(settlements: &[Settlement], rows: DoneRows) -> Result<Self, StoreError> {
        let mut settlements: Vec<&Settlement> = settlements.iter().collect();
        settlements.sort_by_key(|settlement| settlement.lease.seq);
        let (owned, taken): (Vec<&Settlement>, Vec<&Settlement>) =
            settlements.into_iter().partition(|settlement| settlement.lease.token.partition().is_some());
        let [done, fell_back, others] = apart(taken, rows);
        let [owned_done, owned_fell_back, owned_others] = apart(owned, rows);
        Ok(Self {
            done: Numbers::of(&done),
            fell_back: FellBack::of(&fell_back),
            others: Others::new(&others)?,
            owned_done: in_parts(&owned_done).map(Numbers::of).collect(),
            owned_fell_back: owned_fell_back.chunks(OTHERS_AT_ONCE).map(FellBack::of).collect(),
            owned_others: owned_others.chunks(OTHERS_AT_ONCE).map(Others::new).collect::<Result<_, _>>()?,
        })
    }

    /// What is recorded by itself: each part of what owners have done, and with the first of them all the rest.
    pub(super) fn divided(mut self) -> Vec<Self> {
        let mut done = std::mem::take(&mut self.owned_done).into_iter();
        self.owned_done = done.next().into_iter().collect();
        let mut divided = vec![self];
        divided.extend(done.map(|part| Self { owned_done: vec![part], ..Self::default() }));
        divided
    }

    /// Whether it takes more than one statement.
    pub(super) fn is_mixed(&self) -> bool {
        let Self { done, fell_back, others, owned_done, owned_fell_back, owned_others } = self;
        let of_takes = [done, &fell_back.numbers, &others.numbers];
        let of_takes = of_takes.into_iter().filter(|numbers| !numbers.is_empty()).count();
        of_takes + owned_done.len() + owned_fell_back.len() + owned_others.len() > 1
    }

    /// Applies all, and returns the leases that were settled.
    pub(super) async fn apply(
        &self,
        inner: &Inner,
        connection: &mut PgConnection,
        rows: DoneRows,
    ) -> Result<Leases, sqlx::Error> {
        let mut settled = Leases::new();
        // First, for some of the others lock leases, on which heartbeats would wait.
        for numbers in &self.owned_done {
            settled.extend(numbers.finish(inner, connection, rows).await?);
        }
        for query in self.queries(inner, rows) {
            settled.extend(leases_of(&query.fetch_all(&mut *connection).await?)?);
        }
        Ok(settled)
    }

    fn queries(&self, inner: &Inner, rows: DoneRows) -> Vec<Query> {
        let statements = &inner.statements;
        let done: &SqlStr = match rows {
            DoneRows::Keep => &statements.done,
            DoneRows::Delete => &statements.delete,
        };
        let mut queries = Vec::new();
        if !self.done.is_empty() {
            let Numbers { seqs, tokens, .. } = &self.done;
            queries.push(inner.query(done).bind(seqs).bind(tokens));
        }
        if !self.fell_back.numbers.is_empty() {
            queries.push(self.fell_back.taken(inner));
        }
        queries.extend(self.owned_fell_back.iter().map(|fell_back| fell_back.owned(inner)));
        if !self.others.numbers.is_empty() {
            queries.push(self.others.taken(inner));
        }
        queries.extend(self.owned_others.iter().map(|others| others.owned(inner)));
        queries
    }
}

/// What is done, by statements.
fn in_parts<'s, 'a>(done: &'s [&'a Settlement]) -> impl Iterator<Item = &'s [&'a Settlement]> {
    let longest_id = done.iter().map(|settlement| settlement.event_id.len()).max().unwrap_or_default();
    done.chunks(part_of(done.len(), longest_id))
}

/// How many of so many done rows, whose ids are no longer than this, one statement writes: parts of the same size, and as
/// many for one connection as for the other, so that neither waits for the other.
fn part_of(rows: usize, longest_id: usize) -> usize {
    let parts = rows.div_ceil(DONE_IN_BYTES / (DONE_ROW + longest_id));
    let parts = if parts > 1 { parts.next_multiple_of(2) } else { 1 };
    rows.div_ceil(parts).max(1)
}

/// DONE, which writes the same to all rows; DONE with an attempt; and the others.
fn apart(settlements: Vec<&Settlement>, rows: DoneRows) -> [Vec<&Settlement>; 3] {
    let mut apart = [const { Vec::new() }; 3];
    for settlement in settlements {
        let kind = match counted(&settlement.outcome, rows) {
            Outcome::Done => 0,
            Outcome::FellBack { .. } => 1,
            _ => 2,
        };
        apart[kind].push(settlement);
    }
    apart
}

/// DONE with an attempt, in columns.
#[derive(Default)]
struct FellBack {
    numbers: Numbers,
    /// The attempts before.
    attempts: Vec<i32>,
    errors: Vec<Option<String>>,
}

impl FellBack {
    /// Those of settlements in the order of their numbers.
    fn of(settlements: &[&Settlement]) -> Self {
        let attempts = settlements.iter().map(|settlement| count(settlement.lease.attempts)).collect();
        let errors = settlements.iter().map(|settlement| Change::of(&settlement.outcome).error).collect();
        Self { numbers: Numbers::of(settlements), attempts, errors }
    }

    /// The statement for leases of takes.
    fn taken(&self, inner: &Inner) -> Query {
        let Numbers { seqs, tokens, .. } = &self.numbers;
        let query = inner.query(&inner.statements.fell_back).bind(seqs).bind(tokens);
        query.bind(&self.attempts).bind(&self.errors)
    }

    /// The statement for leases under the tokens of partitions.
    fn owned(&self, inner: &Inner) -> Query {
        let query = self.numbers.owned(inner.query(&inner.statements.owned_fell_back));
        query.bind(self.numbers.fences().0).bind(&self.attempts).bind(&self.errors)
    }
}

/// Outcomes other than DONE, in columns; `None` leaves a column of the row as it is.
#[derive(Default)]
struct Others {
    numbers: Numbers,
    statuses: Vec<Option<i16>>,
    /// The attempts before, where one more is spent.
    attempts: Vec<Option<i32>>,
    starts: Vec<i32>,
    due_in: Vec<Option<i64>>,
    available_in: Vec<Option<i64>>,
    errors: Vec<Option<String>>,
    reasons: Vec<Option<String>>,
    handlers: Vec<Option<String>>,
    endless: Vec<bool>,
    parks: Vec<bool>,
    /// What was read of handlers, where something is said of them.
    handlers_before: Vec<Option<String>>,
}

impl Others {
    /// Those of settlements in the order of their numbers.
    fn new(settlements: &[&Settlement]) -> Result<Self, StoreError> {
        let mut others = Self::default();
        for settlement in settlements {
            check(settlement)?;
            others.push(settlement);
        }
        Ok(others)
    }

    fn push(&mut self, settlement: &Settlement) {
        let Settlement { lease, outcome, handlers, .. } = settlement;
        let row = Change::of(outcome);
        self.numbers.add(settlement);
        self.statuses.push(row.status.map(|status| i16::from(status.code())));
        self.attempts.push(outcome.spends().then(|| count(lease.attempts)));
        self.starts.push(count(lease.starts));
        self.due_in.push(row.due_in);
        self.available_in.push(row.available_in);
        self.errors.push(row.error);
        self.reasons.push(row.reason);
        self.handlers.push(handlers.clone());
        self.handlers_before.push(settlement.handlers_before.clone().filter(|_| handlers.is_some()));
        self.endless.push(matches!(outcome, Outcome::Aside { until: None, .. }));
        self.parks.push(matches!(outcome, Outcome::Parked { .. }));
    }

    /// The statement for leases of takes.
    fn taken(&self, inner: &Inner) -> Query {
        let Numbers { seqs, tokens, .. } = &self.numbers;
        self.bind(inner.query(&inner.statements.settle).bind(seqs).bind(tokens))
    }

    /// The statement for leases under the tokens of partitions.
    fn owned(&self, inner: &Inner) -> Query {
        let (fenced, fences) = self.numbers.fences();
        let query = inner.query(&inner.statements.owned_settle).bind(fenced).bind(fences);
        let query = self.bind(self.numbers.owned(query));
        query.bind(&self.endless).bind(&self.parks).bind(&self.handlers_before)
    }

    fn bind(&self, query: Query) -> Query {
        query
            .bind(&self.statuses)
            .bind(&self.attempts)
            .bind(&self.starts)
            .bind(&self.due_in)
            .bind(&self.available_in)
            .bind(&self.errors)
            .bind(&self.reasons)
            .bind(&self.handlers)
    }
}

/// Refuses an outcome that nobody would bring an event back from. (Whether it has a key, the table knows.)
fn check(Settlement { lease, outcome, .. }: &Settlement) -> Result<(), StoreError> {
    if outcome.needs_owner() && lease.token.partition().is_none() {
        return Err(refusal("only the owner of a partition sets aside without an end, or parks a key"));
    }
    match outcome {
        Outcome::Aside { until: None, reason } if matches!(reason.as_str(), DELAYED | REPLAYED) => {
            Err(refusal("an event that does not wait for its key is set aside with an end"))
        }
        _ => Ok(()),
    }
}

/// What one outcome changes.
#[derive(Default)]
struct Change {
    status: Option<Status>,
    due_in: Option<i64>,
    available_in: Option<i64>,
    error: Option<String>,
    reason: Option<String>,
}

impl Change {
    fn of(outcome: &Outcome) -> Self {
        match outcome {
            Outcome::Retry { after, error, .. } => {
                let after = Some(micros(*after));
                Self {
                    status: Some(Status::Retry),
                    due_in: after,
                    available_in: after,
                    error: kept(error),
                    reason: None,
                }
            }
            Outcome::Aside { until, reason } => Self {
                status: Some(Status::Retry),
                available_in: until.map(micros),
                reason: Some(cut_error(reason)),
                ..Self::default()
            },
            Outcome::Dead { error, .. } | Outcome::Parked { error, .. } => {
                Self { status: Some(Status::Dead), error: kept(error), ..Self::default() }
            }
            Outcome::Released => Self::default(),
            Outcome::Done => Self { status: Some(Status::Done), ..Self::default() },
            Outcome::FellBack { error } => {
                Self { status: Some(Status::Done), error: kept(error), ..Self::default() }
            }
        }
    }
}

fn count(count: u32) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// D12: no statement is too long, and two connections have as many of them to send.
    #[test]
    fn parts_are_short_and_even() {
        for (rows, id) in (1..=5_000_usize).flat_map(|rows| [0, 26, 36, 144].map(|id| (rows, id))) {
            let part = part_of(rows, id);
            let (parts, fitting) = (rows.div_ceil(part), DONE_IN_BYTES / (DONE_ROW + id));

            assert!(part * (DONE_ROW + id) <= DONE_IN_BYTES, "{rows} of {id}");
            assert!(parts == 1 || parts.is_multiple_of(2), "{rows} of {id}");
            assert_eq!(parts == 1, rows <= fitting, "{rows} of {id}");
        }
        // The largest batch of an owner, by ids of ours.
        assert_eq!(part_of(1_000, 26), 250);
    }
}
