//! What a run may have at most, whatever its seed decides: so that a failing one can be made smaller.

use std::fmt;
use std::str::FromStr;

use super::options::Options;

/// The most of each thing that a run may have. `keys=1,freezes=0` says the same in text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    most: [u64; COUNT],
}

const COUNT: usize = 21;

/// What a run can have less of, or none; of those at the front most is gained by less.
const NAMES: [&str; COUNT] = [
    "instances",
    "changes",
    "writers",
    "transactions",
    "keys",
    "faults",
    "fault_rate",
    "poison",
    "silence",
    "freezes",
    "late_effects",
    "jumps",
    "steps",
    "operator",
    "hints",
    "put_off",
    "failovers",
    "handlers",
    "routes",
    "pauses",
    "crowds",
];

impl Limits {
    /// No limits.
    pub const NONE: Self = Self { most: [u64::MAX; COUNT] };

    /// These limits with that of one thing lowered to `value`.
    pub(super) fn lower(&self, place: usize, value: u64) -> Self {
        let mut lower = *self;
        lower.most[place] = lower.most[place].min(value);
        lower
    }

    /// What a run has of each thing, in the order of the names.
    pub(super) fn of(options: &mut Options) -> [Amount<'_>; COUNT] {
        // Limits are for runs with owners.
        let owned = options.owned.get_or_insert_default();
        [
            Amount::Count(&mut owned.instances),
            Amount::Count(&mut owned.changes),
            Amount::Count(&mut options.writers),
            Amount::Count(&mut options.transactions),
            Amount::Count(&mut owned.keys),
            Amount::Flag(&mut options.has_faults),
            Amount::Count(&mut options.fault_rate),
            Amount::Flag(&mut options.has_poison),
            Amount::Flag(&mut options.has_silence),
            Amount::Flag(&mut owned.has_freezes),
            Amount::Flag(&mut owned.has_late_effects),
            Amount::Flag(&mut owned.has_jumps),
            Amount::Flag(&mut owned.has_steps),
            Amount::Flag(&mut owned.has_operator),
            Amount::Flag(&mut owned.has_hints),
            Amount::Count(&mut owned.put_off),
            Amount::Flag(&mut owned.has_failovers),
            Amount::Flag(&mut options.has_handlers),
            Amount::Flag(&mut options.has_routes),
            Amount::Flag(&mut options.has_pauses),
            Amount::Flag(&mut owned.has_crowds),
        ]
    }

    /// The options within these limits.
    pub(super) fn apply(&self, mut options: Options) -> Options {
        if *self != Self::NONE {
            for (amount, most) in Self::of(&mut options).into_iter().zip(self.most) {
                amount.limit(most);
            }
        }
        options
    }
}

/// How much of something a run has.
pub(super) enum Amount<'a> {
    Count(&'a mut u64),
    Flag(&'a mut bool),
}

impl Amount<'_> {
    pub(super) fn value(&self) -> u64 {
        match self {
            Self::Count(count) => **count,
            Self::Flag(flag) => u64::from(**flag),
        }
    }

    fn limit(self, most: u64) {
        match self {
            Self::Count(count) => *count = most.min(*count),
            Self::Flag(flag) => *flag &= most > 0,
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self::NONE
    }
}

impl fmt::Display for Limits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let set = NAMES.iter().zip(self.most).filter(|(_, most)| *most < u64::MAX);
        let set: Vec<String> = set.map(|(name, most)| format!("{name}={most}")).collect();
        f.pad(&set.join(","))
    }
}

impl FromStr for Limits {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut limits = Self::NONE;
        for limit in text.split(',').filter(|limit| !limit.is_empty()) {
            let parts = limit.split_once('=').and_then(|(name, most)| Some((name, most.parse().ok()?)));
            let (name, most) = parts.ok_or_else(|| format!("`{limit}` is no limit; write `keys=1`"))?;
            let place = NAMES.iter().position(|known| *known == name);
            let place = place
                .ok_or_else(|| format!("there is no limit `{name}`; there are: {}", NAMES.join(", ")))?;
            limits.most[place] = most;
        }
        Ok(limits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::rng::Rng;

    /// What is printed can be given again.
    #[test]
    fn text_is_read_as_it_is_written() {
        let text = "keys=1,freezes=0";
        let limits: Limits = text.parse().unwrap();

        assert_eq!(limits.to_string(), text);
        assert_eq!("".parse(), Ok(Limits::NONE));
        assert!("key=1".parse::<Limits>().unwrap_err().contains("there are: instances, "));
        assert!("keys".parse::<Limits>().unwrap_err().contains("write `keys=1`"));
    }

    /// A limit takes nothing away but what lies above it.
    #[test]
    fn limits_lower_what_is_above_them() {
        for seed in 0..100 {
            let drawn = Options::draw_owned(&Rng::new(seed), &Rng::new(seed));
            let limited = "keys=2,faults=0".parse::<Limits>().unwrap().apply(drawn);

            let (before, after) = (drawn.owned.unwrap(), limited.owned.unwrap());
            assert_eq!((after.keys, limited.has_faults), (before.keys.min(2), false));
            assert_eq!((after.instances, after.order), (before.instances, before.order));
        }
    }
}
