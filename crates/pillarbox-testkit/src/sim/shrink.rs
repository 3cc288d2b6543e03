//! Making a failing run smaller.

use super::limits::Limits;
use super::{Rng, Script, drawn, run};

/// The lowest limits found under which the run of `seed` still fails, the ones of the script included. It need not fail
/// in the same way. Takes some hundred runs at most.
///
/// Returns the limits of the script if the run does not fail at all, or if it is one in which rows are claimed.
pub fn shrink(seed: u64, script: Script) -> Limits {
    let script = Script { keep_trace: false, ..script };
    let fails = |limits| !run(seed, Script { limits, ..script }).violations.is_empty();
    let mut limits = script.limits;
    if script.mode != pillarbox::store::Mode::Ownership || !fails(limits) {
        return limits;
    }
    loop {
        let smaller = smaller(seed, script, limits).into_iter().find(|limits| fails(*limits));
        match smaller {
            Some(smaller) => limits = smaller,
            None => return limits,
        }
    }
}

/// Limits that are a little lower, those first by which most is gained.
fn smaller(seed: u64, script: Script, limits: Limits) -> Vec<Limits> {
    let mut options = drawn(&Rng::new(seed), seed, Script { limits, ..script });
    let values = Limits::of(&mut options).map(|amount| amount.value());
    let mut smaller = Vec::new();
    for (place, value) in values.into_iter().enumerate().filter(|(_, value)| *value > 0) {
        let mut lower = vec![0, 1, value / 2, value - 1];
        lower.retain(|lower| *lower < value);
        lower.dedup();
        smaller.extend(lower.into_iter().map(|lower| limits.lower(place, lower)));
    }
    smaller
}
