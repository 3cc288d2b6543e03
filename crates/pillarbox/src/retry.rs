//! When a failed event is tried again, and when it is given up.

mod configured;
mod filter;
mod kind;

use std::error::Error;
use std::time::Duration;

pub(crate) use configured::{RetryConfig, RetryKind};
pub use filter::Filtered;
pub use kind::ErrorKind;
pub(crate) use kind::Kinds;

/// When a failed event is tried again, and when it is given up; [`Retry`] is the built-in one.
///
/// # Contract
/// - The answers depend on the arguments alone: randomness comes from outside, and time is not read.
/// - No argument makes it panic.
///
/// ```
/// use std::{error::Error, io, time::Duration};
/// use pillarbox::{Retry, RetryPolicy};
///
/// /// Gives up at once what a second try cannot mend.
/// struct OnlyIo(Retry);
///
/// impl RetryPolicy for OnlyIo {
///     fn max_attempts(&self) -> u32 {
///         RetryPolicy::max_attempts(&self.0)
///     }
///     fn next_delay(&self, attempt: u32, random: f64) -> Duration {
///         self.0.next_delay(attempt, random)
///     }
///     fn should_retry(&self, error: &(dyn Error + 'static)) -> bool {
///         error.is::<io::Error>()
///     }
/// }
/// # let policy = OnlyIo(Retry::default());
/// # assert!(policy.should_retry(&io::Error::other("reset")) && !policy.should_retry(&std::fmt::Error));
/// ```
pub trait RetryPolicy: Send + Sync + 'static {
    /// Deliveries in all, the first included: an event that failed this often is dead.
    fn max_attempts(&self) -> u32;

    /// How long to wait after failure number `attempt`, counted from 1. `random` is uniform in `0.0 ..= 1.0`.
    fn next_delay(&self, attempt: u32, random: f64) -> Duration;

    /// Whether another try can help against `error`; if not, the event is dead at once.
    fn should_retry(&self, error: &(dyn Error + 'static)) -> bool;

    /// What is wrong with its settings, if anything is; asked when an outbox is started.
    fn check(&self) -> Result<(), RetryError> {
        Ok(())
    }
}

/// How long to wait after failure number `attempt`, or `None` when the event is to be given up.
pub(crate) fn delay_after(
    policy: &dyn RetryPolicy,
    attempt: u32,
    random: f64,
    error: &(dyn Error + 'static),
) -> Option<Duration> {
    let again = attempt < policy.max_attempts() && policy.should_retry(error);
    again.then(|| policy.next_delay(attempt, random))
}

/// The built-in retry policy: fixed or exponential, with or without randomness. It retries every error.
///
/// | made by | first delay | grows by | at most | randomness |
/// |---|---|---|---|---|
/// | [`Retry::default`] | 200 ms | 2.0 | 60 s | the [`spread`](Self::spread) |
/// | [`Retry::exponential`] | 1 s | 2.0 | 60 s | none |
/// | [`Retry::fixed`] | as given | 1.0 | – | none |
///
/// All of them give an event up at its tenth failure unless [`max_attempts`](Self::max_attempts) or
/// [`max_retries`](Self::max_retries) says otherwise.
///
/// ```
/// use std::time::Duration;
/// use pillarbox::{Retry, RetryPolicy};
///
/// let retry = Retry::exponential().initial(Duration::from_millis(100)).max_attempts(5);
///
/// assert_eq!(retry.next_delay(4, 0.0), Duration::from_millis(800));
/// # retry.check().unwrap();
/// ```
///
/// Setters do not fail; what does not fit together is found by [`check`](Self::check) when the outbox is built.
#[derive(Clone, Debug, PartialEq)]
#[must_use = "a retry policy does nothing until it is given to an outbox"]
pub struct Retry {
    initial: Duration,
    max: Duration,
    multiplier: f64,
    jitter: Duration,
    spread: bool,
    max_attempts: Option<u32>,
    max_retries: Option<u32>,
}

/// A [`Retry`] whose settings contradict each other.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum RetryError {
    /// The number of deliveries was given in both spellings.
    #[error("both `max_attempts` ({max_attempts}) and `max_retries` ({max_retries}) are set; choose one")]
    LimitGivenTwice {
        /// What `max_attempts` was given.
        max_attempts: u32,
        /// What `max_retries` was given.
        max_retries: u32,
    },
    /// No event would ever be delivered.
    #[error("`max_attempts` is 0, but the first delivery counts too; set it to 1 for no retries")]
    NoAttempts,
    /// Delays would shrink, or have no value at all.
    #[error("`multiplier` is {multiplier}; it must be a finite number and at least 1")]
    Multiplier {
        /// What was given.
        multiplier: f64,
    },
    /// The first delay is already longer than the longest.
    #[error("`max` ({max:?}) is shorter than `initial` ({initial:?}); raise the one or lower the other")]
    MaxBelowInitial {
        /// The first delay.
        initial: Duration,
        /// The longest delay.
        max: Duration,
    },
}

impl Retry {
    /// How often an event is delivered unless something else is said: 10 times.
    pub const DEFAULT_MAX_ATTEMPTS: u32 = 10;

    /// A customary delay for [`fixed`](Self::fixed): 5 s.
    pub const DEFAULT_FIXED: Duration = Duration::from_secs(5);

    /// A customary amount for [`jitter`](Self::jitter): 500 ms.
    pub const DEFAULT_JITTER: Duration = Duration::from_millis(500);

    /// Waits 1 s after the first failure and twice as long after each further one, at most 60 s.
    pub const fn exponential() -> Self {
        Self {
            initial: Duration::from_secs(1),
            max: Duration::from_secs(60),
            multiplier: 2.0,
            jitter: Duration::ZERO,
            spread: false,
            max_attempts: None,
            max_retries: None,
        }
    }

    /// Waits `delay` after every failure; see [`DEFAULT_FIXED`](Self::DEFAULT_FIXED).
    pub const fn fixed(delay: Duration) -> Self {
        Self { initial: delay, max: Duration::MAX, multiplier: 1.0, ..Self::exponential() }
    }

    /// Sets the delay after the first failure.
    pub const fn initial(mut self, delay: Duration) -> Self {
        self.initial = delay;
        self
    }

    /// Sets the longest delay, before [`spread`](Self::spread) and [`jitter`](Self::jitter).
    pub const fn max(mut self, delay: Duration) -> Self {
        self.max = delay;
        self
    }

    /// Sets what each further delay is multiplied by; at least 1.
    pub const fn multiplier(mut self, multiplier: f64) -> Self {
        self.multiplier = multiplier;
        self
    }

    /// Adds between nothing and `most` to each delay, at random; see [`DEFAULT_JITTER`](Self::DEFAULT_JITTER).
    pub const fn jitter(mut self, most: Duration) -> Self {
        self.jitter = most;
        self
    }

    /// Multiplies each delay by between 0.5 and 1.5, at random, so that events that failed together part.
    pub const fn spread(mut self) -> Self {
        self.spread = true;
        self
    }

    /// Sets how often an event is delivered in all: at its failure number `attempts` it is dead.
    pub const fn max_attempts(mut self, attempts: u32) -> Self {
        self.max_attempts = Some(attempts);
        self
    }

    /// Sets how often an event is delivered again after its first failure: one less than
    /// [`max_attempts`](Self::max_attempts). Setting both is an error.
    pub const fn max_retries(mut self, retries: u32) -> Self {
        self.max_retries = Some(retries);
        self
    }

    /// Retries errors of type `E`, and no others; see [`Filtered`].
    pub fn only<E: Error + 'static>(self) -> Filtered<Self> {
        Filtered::new(self).only::<E>()
    }

    /// Retries errors that match, and no others; see [`Filtered`].
    pub fn only_if(
        self,
        matches: impl Fn(&(dyn Error + 'static)) -> bool + Send + Sync + 'static,
    ) -> Filtered<Self> {
        Filtered::new(self).only_if(matches)
    }

    /// Never retries errors of type `E`; see [`Filtered`].
    pub fn never<E: Error + 'static>(self) -> Filtered<Self> {
        Filtered::new(self).never::<E>()
    }

    /// Never retries errors that match; see [`Filtered`].
    pub fn never_if(
        self,
        matches: impl Fn(&(dyn Error + 'static)) -> bool + Send + Sync + 'static,
    ) -> Filtered<Self> {
        Filtered::new(self).never_if(matches)
    }

    /// Whether the settings fit together, or the first thing that is wrong with them.
    pub fn check(&self) -> Result<(), RetryError> {
        if let (Some(max_attempts), Some(max_retries)) = (self.max_attempts, self.max_retries) {
            return Err(RetryError::LimitGivenTwice { max_attempts, max_retries });
        }
        if self.max_attempts == Some(0) {
            return Err(RetryError::NoAttempts);
        }
        if !self.multiplier.is_finite() || self.multiplier < 1.0 {
            return Err(RetryError::Multiplier { multiplier: self.multiplier });
        }
        if self.max < self.initial {
            return Err(RetryError::MaxBelowInitial { initial: self.initial, max: self.max });
        }
        Ok(())
    }

    /// The delay without randomness.
    fn nominal(&self, attempt: u32) -> Duration {
        let growth = self.multiplier.powf(f64::from(attempt.saturating_sub(1)));
        // Floating point may land a hair beside either end, and not at all when it overflows.
        scale(self.initial, growth).unwrap_or(self.max).max(self.initial).min(self.max)
    }
}

impl Default for Retry {
    /// `min(60 s, 200 ms * 2^(attempts - 1)) * random(0.5 … 1.5)`.
    fn default() -> Self {
        Self::exponential().initial(Duration::from_millis(200)).spread()
    }
}

impl RetryPolicy for Retry {
    fn max_attempts(&self) -> u32 {
        match (self.max_attempts, self.max_retries) {
            (Some(attempts), _) => attempts,
            (None, Some(retries)) => retries.saturating_add(1),
            (None, None) => Self::DEFAULT_MAX_ATTEMPTS,
        }
    }

    fn next_delay(&self, attempt: u32, random: f64) -> Duration {
        let random = random.clamp(0.0, 1.0);
        let mut delay = self.nominal(attempt);
        if self.spread {
            delay = scale(delay, 0.5 + random).unwrap_or(delay);
        }
        delay.saturating_add(scale(self.jitter, random).unwrap_or(self.jitter))
    }

    fn should_retry(&self, _error: &(dyn Error + 'static)) -> bool {
        true
    }

    fn check(&self) -> Result<(), RetryError> {
        Self::check(self)
    }
}

/// `duration * factor`, unless that is no duration.
fn scale(duration: Duration, factor: f64) -> Option<Duration> {
    // Also because zero times infinity is not a number.
    if duration.is_zero() {
        return Some(duration);
    }
    Duration::try_from_secs_f64(duration.as_secs_f64() * factor).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The delays that an event waits which fails until it is dead, in milliseconds.
    fn waited(policy: &dyn RetryPolicy, random: f64) -> Vec<u128> {
        let delays = (1..).map_while(|attempt| delay_after(policy, attempt, random, &std::fmt::Error));
        delays.map(|delay| delay.as_millis()).collect()
    }

    /// T1, D1
    #[test]
    fn by_default_doubles_from_200_ms_to_60_s_ten_attempts_long() {
        let retry = Retry::default();

        let nominal = [200, 400, 800, 1_600, 3_200, 6_400, 12_800, 25_600, 51_200];
        assert_eq!(waited(&retry, 0.5), nominal);
        assert_eq!(waited(&retry, 0.0), nominal.map(|delay| delay / 2));
        assert_eq!(waited(&retry, 1.0), nominal.map(|delay| delay * 3 / 2));
        assert_eq!(retry.next_delay(10, 0.5), Duration::from_secs(60));
    }

    /// T2
    #[test]
    fn has_the_customary_defaults() {
        assert_eq!(waited(&Retry::fixed(Retry::DEFAULT_FIXED).max_retries(3), 1.0), [5_000; 3]);
        assert_eq!(
            waited(&Retry::exponential(), 1.0),
            [1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000, 60_000]
        );
    }

    /// T2
    #[test]
    fn jitter_is_added_to_either_kind() {
        let fixed = Retry::fixed(Retry::DEFAULT_FIXED).jitter(Retry::DEFAULT_JITTER).max_retries(2);
        let exponential = Retry::exponential().max(Duration::from_secs(2)).jitter(Retry::DEFAULT_JITTER);

        assert_eq!(waited(&fixed, 0.0), [5_000; 2]);
        assert_eq!(waited(&fixed, 0.5), [5_250; 2]);
        assert_eq!(waited(&fixed, 1.0), [5_500; 2]);
        assert_eq!(waited(&exponential.max_retries(3), 1.0), [1_500, 2_500, 2_500]);
    }

    /// T4
    #[test]
    fn five_attempts_wait_four_times_and_five_retries_wait_five_times() {
        let base = Retry::exponential().initial(Duration::from_millis(100));

        assert_eq!(waited(&base.clone().max_attempts(5), 0.9), [100, 200, 400, 800]);
        assert_eq!(waited(&base.max_retries(5), 0.9), [100, 200, 400, 800, 1_600]);
    }

    #[test]
    fn an_error_that_is_not_worth_a_retry_ends_the_event() {
        struct Never;
        impl RetryPolicy for Never {
            fn max_attempts(&self) -> u32 {
                5
            }
            fn next_delay(&self, _attempt: u32, _random: f64) -> Duration {
                Duration::ZERO
            }
            fn should_retry(&self, _error: &(dyn Error + 'static)) -> bool {
                false
            }
        }

        assert_eq!(delay_after(&Never, 1, 0.5, &std::fmt::Error), None);
    }

    #[test]
    fn contradictions_are_found() {
        let second = Duration::from_secs(1);
        let error = |retry: Retry| retry.check().unwrap_err();

        assert_eq!(
            error(Retry::default().max_retries(4).max_attempts(5)),
            RetryError::LimitGivenTwice { max_attempts: 5, max_retries: 4 }
        );
        assert_eq!(error(Retry::default().max_attempts(0)), RetryError::NoAttempts);
        for multiplier in [0.999, 0.0, -2.0, f64::INFINITY, f64::NAN] {
            let found = error(Retry::exponential().multiplier(multiplier));
            assert!(matches!(found, RetryError::Multiplier { .. }), "{multiplier}: {found}");
        }
        assert_eq!(
            error(Retry::exponential().initial(second * 2).max(second)),
            RetryError::MaxBelowInitial { initial: second * 2, max: second }
        );
        assert_eq!(Retry::fixed(Duration::MAX).max_retries(0).check(), Ok(()));
    }

    fn durations() -> impl Strategy<Value = Duration> {
        let edges = prop_oneof![Just(Duration::ZERO), Just(Duration::from_nanos(1)), Just(Duration::MAX)];
        prop_oneof![
            edges,
            (0..100_000_u64).prop_map(Duration::from_millis),
            (any::<u64>(), 0..1_000_000_000_u32).prop_map(|(secs, nanos)| Duration::new(secs, nanos)),
        ]
    }

    fn attempts() -> impl Strategy<Value = u32> {
        prop_oneof![0..200_u32, any::<u32>(), Just(u32::MAX)]
    }

    proptest! {
        #[test]
        fn delays_grow_up_to_the_maximum(
            (a, b) in (durations(), durations()),
            multiplier in prop_oneof![Just(1.0), 1.0..10.0_f64, Just(f64::MAX)],
            attempt in attempts(),
            jitter in durations(),
            random in 0.0..=1.0_f64,
        ) {
            let retry = Retry::exponential().initial(a.min(b)).max(a.max(b)).multiplier(multiplier);
            prop_assert_eq!(retry.check(), Ok(()));

            let delay = retry.next_delay(attempt, random);
            prop_assert!(a.min(b) <= delay && delay <= a.max(b));
            prop_assert!(delay <= retry.next_delay(attempt.saturating_add(1), random));
            let jittered = retry.jitter(jitter).next_delay(attempt, random);
            prop_assert!(delay <= jittered && jittered <= delay.saturating_add(jitter));
        }

        #[test]
        fn nothing_panics(
            (initial, max, jitter) in (durations(), durations(), durations()),
            (multiplier, random) in (any::<f64>(), any::<f64>()),
            attempt in attempts(),
            (limit, retries) in (any::<u32>(), any::<bool>()),
        ) {
            let retry = Retry::fixed(initial).max(max).multiplier(multiplier).jitter(jitter).spread();
            let retry = if retries { retry.max_retries(limit) } else { retry.max_attempts(limit) };

            let _ = retry.check();
            let _ = delay_after(&retry, attempt, random, &std::fmt::Error);
        }
    }
}
