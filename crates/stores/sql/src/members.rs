//! Instances, modes and partitions as they are stored.

use pillarbox::partition_of;
use pillarbox::store::{Mode, Owner, StoreError};

/// The incarnation of an owner as it is stored beside the name: 16 hexadecimal digits, as in `locked_by`.
pub fn incarnation(owner: &Owner) -> String {
    owner.to_string().split_off(owner.name().len() + 1)
}

/// The owner with this name and this [`incarnation`]; `None` if that is no number.
pub fn owner(name: &str, incarnation: &str) -> Option<Owner> {
    u64::from_str_radix(incarnation, 16).ok().map(|incarnation| Owner::new(name, incarnation))
}

/// The mode that the row `mode` of the meta table names; `claims` if there is none.
///
/// Fails with [`StoreError::Config`] if it is one that this build does not know.
pub fn mode(stored: Option<&str>) -> Result<Mode, StoreError> {
    match stored {
        None => Ok(Mode::default()),
        Some(name) => [Mode::Claims, Mode::Ownership]
            .into_iter()
            .find(|mode| mode.to_string() == name)
            .ok_or_else(|| {
                StoreError::Config(format!(
                    "the mode of the outbox is `{name}`, which this build does not know; use a newer build"
                ))
            }),
    }
}

/// The answer to a call that is one of the mode `needed`, on a table of the other.
pub fn wrong_mode(needed: Mode) -> StoreError {
    let mode = other(needed);
    StoreError::Config(format!(
        "the mode of the outbox is `{mode}`, and this is a call of the mode `{needed}`; start the instance in the \
         mode `{mode}`"
    ))
}

/// The answer to one who wants the mode `wanted` while these instances of the other are alive.
pub fn others_alive(wanted: Mode, names: &[String]) -> StoreError {
    let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    StoreError::Config(format!(
        "the mode of the outbox is `{}` while these instances are alive: {}; stop them before you change it to \
         `{wanted}`",
        other(wanted),
        names.join(", "),
    ))
}

/// The partition of a row that was written without one: that of its key, or one by its number.
pub fn adopted_by(seq: i64, key: Option<&str>) -> u8 {
    key.map_or(seq.to_le_bytes()[0], partition_of)
}

/// The mode that it is not.
pub const fn other(mode: Mode) -> Mode {
    match mode {
        Mode::Claims => Mode::Ownership,
        Mode::Ownership => Mode::Claims,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// O4: an owner comes back from its columns, whatever its name is.
    #[test]
    fn owners_come_back() {
        for name in ["relay", "", "relay/1", "relay/00000000000000ff", "läufer"] {
            for number in [0, 7, u64::MAX] {
                let before = Owner::new(name, number);

                assert_eq!(owner(before.name(), &incarnation(&before)), Some(before));
            }
        }
        assert_eq!(owner("relay", "seven"), None);
    }

    /// O3: a table without a mode is one of claims, and one of an unknown mode is left alone.
    #[test]
    fn modes_come_back() {
        for known in [Mode::Claims, Mode::Ownership] {
            assert_eq!(mode(Some(&known.to_string())).unwrap(), known);
        }
        assert_eq!(mode(None).unwrap(), Mode::Claims);
        let unknown = mode(Some("stream")).unwrap_err().to_string();
        assert!(unknown.contains("`stream`"), "{unknown}");
    }

    /// O3: a refusal names the mode that the table has and the one that was asked for.
    #[test]
    fn refusals_name_both_modes() {
        let refused = wrong_mode(Mode::Claims).to_string();
        assert!(refused.contains("is `ownership`") && refused.contains("`claims`"), "{refused}");
        let refused = others_alive(Mode::Claims, &["relay-1".into(), "relay-2".into()]).to_string();
        assert!(refused.contains("`relay-1`, `relay-2`") && refused.contains("to `claims`"), "{refused}");
    }

    /// O3, W9: a row without a partition goes where its key belongs, and without a key anywhere, evenly.
    #[test]
    fn rows_are_adopted_by_key_or_number() {
        assert_eq!(adopted_by(3, Some("order-17")), partition_of("order-17"));
        assert_eq!(adopted_by(3, Some("")), partition_of(""));
        let spread: std::collections::BTreeSet<u8> =
            (1_000..1_256).map(|seq| adopted_by(seq, None)).collect();
        assert_eq!(spread.len(), pillarbox::PARTITIONS);
    }
}
