//! Statements that look into several partitions at once.

use std::sync::{Arc, OnceLock};

use sqlx::{AssertSqlSafe, SqlSafeStr, SqlStr};

/// What stands around the part that looks into one partition.
const BEFORE: &str = "FROM (\n";
const AFTER: &str = ") AS found";

/// A statement that looks into 1 to 258 ranges of an index, each with a limit of its own: all partitions, and two for
/// rows that have none.
///
/// It exists for 3, 4, 6, 10, … 258 ranges; such that find nothing fill the rest.
pub(crate) struct Visited {
    sql: SqlStr,
    sizes: [OnceLock<SqlStr>; 9],
}

impl From<SqlStr> for Visited {
    fn from(sql: SqlStr) -> Self {
        Self { sql, sizes: Default::default() }
    }
}

impl Visited {
    /// The statement for this many visits at least, and how many it really has.
    pub(crate) fn of(&self, visits: usize) -> (SqlStr, usize) {
        let size = (0..self.sizes.len()).find(|&size| visits <= room(size)).unwrap_or(self.sizes.len() - 1);
        let sql = self.sizes[size].get_or_init(|| repeated(&self.sql, room(size)));
        (sql.clone(), room(size))
    }
}

/// For how many visits the statements have room.
const fn room(size: usize) -> usize {
    (1 << size) + 2
}

/// The statement with the part that looks into one partition as often as there are visits.
fn repeated(sql: &SqlStr, visits: usize) -> SqlStr {
    let sql = sql.as_str();
    let parts = sql.split_once(AFTER).and_then(|(before, after)| {
        let start = before.rfind(BEFORE)? + BEFORE.len();
        Some((&before[..start], &before[start..], after))
    });
    let Some((before, one, after)) = parts else { return AssertSqlSafe(sql.to_owned()).into_sql_str() };
    let all = vec![format!("({one})"); visits].join(" UNION ALL ");
    AssertSqlSafe(Arc::<str>::from(format!("{before}{all}{AFTER}{after}"))).into_sql_str()
}

#[cfg(test)]
mod tests {
    use pillarbox_sql::Names;

    use crate::statements::Statements;

    /// O5: every number of visits has a statement with room for it, and what is bound beside them stays.
    #[test]
    fn a_statement_has_room_for_its_visits() {
        let statements = Statements::new(&Names::default());

        for (visited, each, others) in
            [(&statements.fetch, 4, 1), (&statements.below, 4, 1), (&statements.due, 2, 2)]
        {
            for visits in 1..=258 {
                let (sql, room) = visited.of(visits);

                assert!((visits..=(2 * visits).max(3)).contains(&room), "{room} for {visits} visits");
                assert_eq!(sql.as_str().matches('?').count(), room * each + others);
                assert_eq!(sql.as_str().matches(" UNION ALL ").count(), room - 1);
            }
        }
    }
}
