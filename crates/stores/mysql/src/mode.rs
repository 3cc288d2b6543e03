//! The mode that is stored in the outbox, and why calls of the other one fail.

mod change;

use pillarbox::store::{Mode, StoreError};
use pillarbox_sql::members;
use sqlx::mysql::MySqlConnection;

use crate::MySqlStore;
use crate::fault::{self, Place};
use crate::statements::Statements;

pub(crate) use change::change_to;

/// What stands before the mode that the outbox will have.
const BECOMES: &str = "to ";

/// What the row `mode` says; without it the mode is `claims`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stored {
    /// The mode.
    Is(Mode),
    /// Somebody changes it to this one, or died over that: nobody can join before it is done.
    Becomes(Mode),
}

impl Stored {
    pub(crate) fn read(text: Option<&str>) -> Result<Self, sqlx::Error> {
        let next = text.and_then(|text| text.strip_prefix(BECOMES));
        let stored = match next {
            Some(_) => members::mode(next).map(Self::Becomes),
            None => members::mode(text).map(Self::Is),
        };
        stored.map_err(|error| sqlx::Error::Decode(error.to_string().into()))
    }

    fn text(self) -> String {
        match self {
            Self::Is(mode) => mode.to_string(),
            Self::Becomes(mode) => format!("{BECOMES}{mode}"),
        }
    }
}

/// Why an instance may not do what it asked for.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// The table is one of another mode.
    OtherMode { stored: Stored, needed: Mode },
    /// Members of the other mode are alive.
    OthersAlive { names: Vec<String>, needed: Mode },
    /// Numbers are given out in steps other than one.
    Increment(i64),
}

impl Refusal {
    pub(crate) fn into_error(self, place: &Place) -> StoreError {
        match self {
            Self::OtherMode { stored: Stored::Is(mode), needed } if mode == needed => {
                StoreError::Config(format!(
                    "an index of the mode `{mode}` is missing on `{place}`; run `pillarbox migrate --mode {mode}`"
                ))
            }
            Self::OtherMode { stored: Stored::Is(_), needed } => members::wrong_mode(needed),
            Self::OtherMode { stored: Stored::Becomes(mode), .. } => StoreError::Config(format!(
                "the mode of the outbox is being changed to `{mode}`; start an instance in that mode, or run `pillarbox migrate --mode {mode}` to complete it"
            )),
            Self::OthersAlive { names, needed } => members::others_alive(needed, &names),
            Self::Increment(increment) => StoreError::Config(format!(
                "`{place}` has `auto_increment_increment` {increment}, and owners rely on numbers that are given one after the other; set it to 1, or use the mode `{}`",
                Mode::Claims
            )),
        }
    }
}

impl MySqlStore {
    /// An answer to a statement that needs the indexes of `needed`: where they are missing, why.
    ///
    /// Each mode has indexes of its own, and statements name theirs, so that a statement of the other mode fails. The
    /// mode itself has to be looked at only then.
    pub(crate) async fn in_mode<T>(
        &self,
        needed: Mode,
        answer: Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        match answer {
            Err(error) if fault::is_missing_index(&error) => {
                let stored = self.stored_mode().await?;
                Err(Refusal::OtherMode { stored, needed }.into_error(&self.inner.line.place))
            }
            answer => answer,
        }
    }

    pub(crate) async fn stored_mode(&self) -> Result<Stored, StoreError> {
        let mode = self.inner.statements.mode.clone();
        let stored = self.run(
            |inner| &inner.operating,
            move |connection| {
                let query = sqlx::query_scalar::<_, String>(mode.clone());
                Box::pin(async move { Stored::read(query.fetch_optional(connection).await?.as_deref()) })
            },
        );
        stored.await
    }
}

/// Names of members of another mode than `mode` that are alive, but for one whose place is taken.
pub(crate) async fn others_alive(
    connection: &mut MySqlConnection,
    statements: &Statements,
    mode: Mode,
    replaced: Option<&str>,
) -> Result<Vec<String>, sqlx::Error> {
    let others = sqlx::query_scalar(statements.others.clone()).bind(mode.to_string()).bind(replaced);
    let mut names: Vec<String> = others.fetch_all(connection).await?;
    names.sort_unstable();
    Ok(names)
}

/// How far apart the numbers are that the server gives, if it is not one.
pub(crate) async fn increment(
    connection: &mut MySqlConnection,
    statements: &Statements,
) -> Result<Option<i64>, sqlx::Error> {
    let increment: i64 = sqlx::query_scalar(statements.increment.clone()).fetch_one(connection).await?;
    Ok((increment != 1).then_some(increment))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// O3: what is stored is read as it was written, and anything else is no mode.
    #[test]
    fn modes_come_back() {
        for mode in [Mode::Claims, Mode::Ownership] {
            for stored in [Stored::Is(mode), Stored::Becomes(mode)] {
                assert_eq!(Stored::read(Some(&stored.text())).unwrap(), stored);
            }
        }
        assert_eq!(Stored::read(None).unwrap(), Stored::Is(Mode::Claims));
        assert!(Stored::read(Some("Claims")).is_err());
    }
}
