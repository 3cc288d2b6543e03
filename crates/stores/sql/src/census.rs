//! A census, as it is put together from what statements find.

use std::time::Duration;

use pillarbox::store::{Census, Mode, Owner};

use crate::members;

/// What is pending in one partition, or in none, as a statement has counted it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Waiting {
    /// Which one; `None` if the events have none yet.
    pub partition: Option<u8>,
    /// Those of status 0.
    pub fresh: u64,
    /// Those of status 2.
    pub aside: u64,
    /// How long the oldest of them has been due; `None` if none is due.
    pub oldest_due_for: Option<Duration>,
}

/// A row of the list that makes no sense, as the driver says it.
pub fn unreadable(reason: String) -> sqlx::Error {
    sqlx::Error::Decode(reason.into())
}

/// Adds what waits to its partition, of which `census` has all.
pub fn count(census: &mut Census, waiting: Waiting) {
    let Waiting { partition, fresh, aside, oldest_due_for } = waiting;
    let tenancy = partition.and_then(|partition| census.partitions.get_mut(usize::from(partition)));
    match tenancy {
        Some(tenancy) => {
            tenancy.fresh += fresh;
            tenancy.aside += aside;
            tenancy.oldest_due_for = tenancy.oldest_due_for.max(oldest_due_for);
        }
        None => census.unplaced += fresh + aside,
    }
}

/// Who is listed as `name`, `incarnation` and `mode`, or why that is nobody.
pub fn listed(name: &str, incarnation: &str, mode: &str) -> Result<(Owner, Mode), String> {
    let owner = members::owner(name, incarnation)
        .ok_or_else(|| format!("the instance `{name}` has the incarnation `{incarnation}`, which is none"))?;
    let mode = members::mode(Some(mode)).map_err(|error| error.to_string())?;
    Ok((owner, mode))
}

/// The owner of a partition, if it has one, or why that is nobody.
pub fn tenant(name: Option<&str>, incarnation: Option<&str>) -> Result<Option<Owner>, String> {
    let Some((name, incarnation)) = name.zip(incarnation) else { return Ok(None) };
    listed(name, incarnation, &Mode::Ownership.to_string()).map(|(owner, _)| Some(owner))
}

#[cfg(test)]
mod tests {
    use super::*;
    use pillarbox::store::Tenancy;

    /// M5: fresh and aside events of a partition come together, with the older of the two; others are in none.
    #[test]
    fn what_waits_comes_together() {
        let partitions = (0..=u8::MAX).map(|partition| Tenancy { partition, ..Tenancy::default() });
        let mut census = Census { partitions: partitions.collect(), ..Census::default() };
        let second = Some(Duration::from_secs(1));
        let of_seven = Waiting { partition: Some(7), ..Waiting::default() };

        count(&mut census, Waiting { fresh: 3, oldest_due_for: second, ..of_seven });
        count(&mut census, Waiting { aside: 2, oldest_due_for: None, ..of_seven });
        count(&mut census, Waiting { fresh: 5, oldest_due_for: second, ..Waiting::default() });

        let seven = &census.partitions[7];
        assert_eq!((seven.fresh, seven.aside, seven.oldest_due_for), (3, 2, second));
        assert_eq!((census.unplaced, census.pending()), (5, 10));
    }

    /// M5: who is listed wrongly is named.
    #[test]
    fn wrong_entries_are_named() {
        assert!(listed("relay", "seven", "claims").unwrap_err().contains("`seven`"));
        assert!(listed("relay", "07", "stream").unwrap_err().contains("`stream`"));
        assert_eq!(tenant(None, None), Ok(None));
        assert_eq!(tenant(Some("relay"), Some("07")), Ok(Some(Owner::new("relay", 7))));
    }
}
