//! So many events per second, and not more.

use std::str::FromStr;
use std::time::Duration;

use tokio::time::Instant;

/// Steps per second, so that a pace is smooth.
const STEPS: f64 = 10.0;
/// Events in a step at most.
const MOST: usize = 500;

/// Events per second, as the user gave them: `100`, `100/s`, `0.5/s`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rate(f64);

impl FromStr for Rate {
    type Err = String;

    fn from_str(given: &str) -> Result<Self, String> {
        let number: Option<f64> = given.trim().trim_end_matches("/s").trim_end().parse().ok();
        let rate = number.filter(|rate| (0.001..=1_000_000.0).contains(rate));
        rate.map(Self).ok_or_else(|| {
            "give events per second, from 0.001 to 1000000, for example `100` or `100/s`".to_owned()
        })
    }
}

/// Work at a rate, or as fast as it goes.
pub(crate) struct Pace {
    rate: Option<Rate>,
    begun: Instant,
}

impl Pace {
    pub(crate) fn begin(rate: Option<Rate>) -> Self {
        Self { rate, begun: Instant::now() }
    }

    /// How many events belong into one step.
    pub(crate) fn step(&self) -> usize {
        match self.rate {
            // A step of at least one event; less than ten of them in a second then.
            Some(Rate(rate)) => ((rate / STEPS) as usize).clamp(1, MOST),
            None => MOST,
        }
    }

    /// How long to wait until the next step, when so many events are over.
    pub(crate) fn pause(&self, events: u64) -> Duration {
        let Some(Rate(rate)) = self.rate else { return Duration::ZERO };
        let due = Duration::from_secs_f64(events as f64 / rate);
        due.saturating_sub(self.begun.elapsed())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// K4: the next step waits until as many as there were are due.
    #[tokio::test(start_paused = true)]
    async fn events_are_spread_over_time() {
        let pace = Pace::begin(Some("100/s".parse().unwrap()));

        assert_eq!((pace.step(), pace.pause(0)), (10, Duration::ZERO));
        assert_eq!(pace.pause(10), Duration::from_millis(100));
        tokio::time::advance(Duration::from_millis(70)).await;
        assert_eq!(pace.pause(10), Duration::from_millis(30));
        assert_eq!(Pace::begin(None).pause(1_000_000), Duration::ZERO);
    }

    /// K4: what is slow goes one by one, and what is fast in steps that leave room for others.
    #[test]
    fn steps_are_small() {
        for (rate, step) in [("0.5", 1), ("9", 1), ("200", 20), ("1000000", MOST)] {
            assert_eq!(Pace::begin(Some(rate.parse().unwrap())).step(), step, "{rate}");
        }
    }

    #[test]
    fn a_rate_is_a_number_above_zero() {
        for given in ["0", "-1", "fast", "", "NaN", "inf"] {
            assert!(given.parse::<Rate>().unwrap_err().contains("events per second"), "{given}");
        }
    }
}
