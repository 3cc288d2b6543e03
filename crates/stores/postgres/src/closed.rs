//! The closed number: up to which no event can still appear.
//!
//! Numbers are given before the commit, so the highest that is seen says nothing about those below it. But an INSERT
//! locks the table before it gets its number, and unlocks it after its commit is visible. So of the transactions that
//! were given a number up to the highest, those are still open that hold this lock now; when they have all ended,
//! nothing can appear below. (A rule by the snapshot's transaction ids is wrong: they are given after the numbers.)

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use pillarbox::store::{Numbers, StoreError};
use sqlx::Row;
use sqlx::postgres::PgRow;

use crate::PostgresStore;
use crate::time::Instant;

/// What is known from earlier looks.
#[derive(Default)]
pub(crate) struct Closing(Mutex<State>);

impl PostgresStore {
    pub(crate) async fn known_numbers(&self) -> Result<Numbers, StoreError> {
        let inner = Arc::clone(&self.inner);
        // What a look tells is learnt before the next one begins: there is one at a time on a lane.
        self.run(
            |inner| &inner.taking,
            move |connection| {
                let inner = Arc::clone(&inner);
                Box::pin(async move {
                    let Session { pid, began_at } = inner.closing.session();
                    let look = inner.query(&inner.statements.closed).bind(pid).bind(began_at);
                    let look = Look::of(&look.fetch_one(connection).await?)?;
                    Ok(inner.closing.learn(look))
                })
            },
        )
        .await
    }
}

impl Closing {
    fn session(&self) -> Session {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).session
    }

    fn learn(&self, look: Look) -> Numbers {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).learn(look)
    }
}

/// A session of the server's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Session {
    pid: i32,
    began_at: Instant,
}

impl Default for Session {
    /// One that never was.
    fn default() -> Self {
        Self { pid: 0, began_at: Instant::NEVER }
    }
}

/// What one statement saw. Transactions go by their virtual ids.
#[derive(Clone, Debug)]
struct Look {
    session: Session,
    /// Whether the session of the look before is still there: then no number was taken back since.
    is_same_server: bool,
    /// The highest number that was given.
    highest: i64,
    /// Transactions that may have inserted.
    running: HashSet<String>,
    /// Those of them that are prepared.
    prepared: HashSet<String>,
}

impl Look {
    fn of(row: &PgRow) -> Result<Self, sqlx::Error> {
        let transactions =
            |name| row.try_get(name).map(|ids: Vec<String>| ids.into_iter().collect::<HashSet<String>>());
        Ok(Self {
            session: Session { pid: row.try_get("session")?, began_at: row.try_get("session_began_at")? },
            is_same_server: row.try_get("is_same_server")?,
            highest: row.try_get("highest")?,
            running: transactions("running")?,
            prepared: transactions("prepared")?,
        })
    }
}

#[derive(Default)]
struct State {
    session: Session,
    closed: i64,
    /// The highest number at the look before.
    highest: Option<i64>,
    candidate: Option<Candidate>,
}

/// A number that is closed when these transactions have ended.
struct Candidate {
    number: i64,
    running: HashSet<String>,
    prepared: HashSet<String>,
}

impl State {
    fn learn(&mut self, look: Look) -> Numbers {
        // Another server, or one that crashed, may have taken numbers back, and give them again.
        if !look.is_same_server || look.highest < self.closed {
            *self = Self::default();
        }
        if let Some(candidate) = self.candidate.take_if(|candidate| candidate.has_ended(&look)) {
            self.closed = candidate.number;
        }
        // Who was given a number by the look before has the lock since then, or has ended.
        if let (None, Some(number)) = (&self.candidate, self.highest) {
            if look.running.is_empty() && look.prepared.is_empty() {
                self.closed = number;
            } else {
                self.candidate = Some(Candidate { number, running: look.running, prepared: look.prepared });
            }
        }
        self.session = look.session;
        self.highest = Some(look.highest);
        Numbers { closed: self.closed, given: look.highest }
    }
}

impl Candidate {
    fn has_ended(&mut self, look: &Look) -> bool {
        // One that ran until now may have been prepared, and have another id since.
        let may_be_prepared = !self.running.is_empty();
        self.running.retain(|id| look.running.contains(id));
        self.prepared.retain(|id| look.prepared.contains(id));
        if may_be_prepared {
            self.prepared.extend(look.prepared.iter().cloned());
        }
        self.running.is_empty() && self.prepared.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SESSION: Session = Session { pid: 17, began_at: Instant::ENDLESS };

    fn look(highest: i64, running: &[&str], prepared: &[&str]) -> Look {
        let ids = |ids: &[&str]| ids.iter().map(|&id| id.to_owned()).collect();
        let (running, prepared) = (ids(running), ids(prepared));
        Look { session: SESSION, is_same_server: true, highest, running, prepared }
    }

    /// What the looks answer, one after the other.
    fn answers<const LOOKS: usize>(looks: [Look; LOOKS]) -> [i64; LOOKS] {
        let mut state = State::default();
        looks.map(|look| state.learn(look).closed)
    }

    /// O1: where nobody writes, the number that was the highest at the look before is closed.
    #[test]
    fn quiet_table_is_closed_one_look_later() {
        assert_eq!(answers([look(5, &[], &[]), look(7, &[], &[]), look(7, &[], &[])]), [0, 5, 7]);
    }

    /// O1: that nobody wrote when a number was looked at does not close it: who was given it may be seen later only.
    #[test]
    fn number_and_writers_are_not_of_one_look() {
        assert_eq!(answers([look(5, &[], &[]), look(6, &["3/1"], &[]), look(6, &["3/1"], &[])]), [0, 0, 0]);
    }

    /// O1: a number is closed when all who wrote at that time have ended, whoever has begun since.
    #[test]
    fn number_waits_for_those_who_wrote_at_its_time() {
        let looks = [
            look(5, &["3/1", "4/1"], &[]),
            look(6, &["3/1", "4/1"], &[]),
            look(7, &["3/1", "5/1"], &[]),
            look(8, &["3/2", "5/1"], &[]),
            look(9, &["5/1"], &[]),
            look(9, &[], &[]),
        ];

        assert_eq!(answers(looks), [0, 0, 0, 5, 5, 9]);
    }

    /// O1: a transaction that is prepared has not ended, under whatever id it goes on.
    #[test]
    fn prepared_transaction_is_waited_for() {
        for id in ["3/1", "-1/812"] {
            let looks = [
                look(5, &["3/1"], &[]),
                look(6, &["3/1"], &[]),
                look(6, &[], &[id]),
                look(6, &["7/1"], &[id]),
                look(6, &["7/1"], &[]),
            ];

            assert_eq!(answers(looks), [0, 0, 0, 0, 5], "{id}");
        }
    }

    /// O1: where transactions are prepared all the time, the number is closed all the same.
    #[test]
    fn those_prepared_later_are_not_waited_for() {
        let looks = [
            look(5, &["3/1"], &[]),
            look(6, &["3/1"], &[]),
            look(7, &[], &["-1/1", "-1/2"]),
            look(8, &[], &["-1/2", "-1/3"]),
            look(9, &[], &["-1/3", "-1/4"]),
        ];

        assert_eq!(answers(looks), [0, 0, 0, 0, 5]);
    }

    /// O1: what was known of a server that is gone is forgotten, and so is all if numbers went back.
    #[test]
    fn other_server_begins_anew() {
        let elsewhere = |look: Look| Look { is_same_server: false, ..look };
        let failover =
            [look(5, &[], &[]), look(5, &[], &[]), elsewhere(look(9, &[], &[])), look(9, &[], &[])];
        let went_back = [look(5, &[], &[]), look(5, &[], &[]), look(3, &[], &[]), look(4, &[], &[])];

        assert_eq!(answers(failover), [0, 5, 0, 9]);
        assert_eq!(answers(went_back), [0, 5, 0, 3]);
    }
}
