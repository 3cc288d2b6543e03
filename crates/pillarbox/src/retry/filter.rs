//! Which errors are worth another try.

use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::{RetryError, RetryPolicy};

pub(super) type Matches = Arc<dyn Fn(&(dyn Error + 'static)) -> bool + Send + Sync>;

/// A retry policy that gives up at once what a second try cannot mend; made by [`Retry::only`](super::Retry::only),
/// [`Retry::never`](super::Retry::never) and their kin, or around a policy of yours.
///
/// - With [`only`](Self::only) (or [`only_if`](Self::only_if)) those errors are retried, and no others.
/// - With [`never`](Self::never) (or [`never_if`](Self::never_if)) those errors are not retried, and all others are.
/// - With both, `only` decides.
///
/// An error matches a type if it is one, or if one of its causes is.
///
/// ```
/// use std::{fmt, io};
/// use pillarbox::{Filtered, Retry, RetryPolicy};
///
/// let policy = Retry::exponential().max_retries(3).never::<fmt::Error>();
/// assert!(policy.should_retry(&io::Error::other("reset")) && !policy.should_retry(&fmt::Error));
///
/// let policy = Filtered::new(policy).only_if(|error| error.to_string().contains("reset"));
/// assert!(policy.should_retry(&io::Error::other("reset")) && !policy.should_retry(&io::Error::other("gone")));
/// ```
#[derive(Clone)]
#[must_use = "a retry policy does nothing until it is given to an outbox"]
pub struct Filtered<P> {
    policy: P,
    only: Vec<Matches>,
    never: Vec<Matches>,
}

impl<P: RetryPolicy> Filtered<P> {
    /// Lets `policy` decide, until something is filtered.
    pub fn new(policy: P) -> Self {
        Self { policy, only: Vec::new(), never: Vec::new() }
    }

    /// Retries errors of type `E`, and no others but those that are named so too.
    pub fn only<E: Error + 'static>(self) -> Self {
        self.only_if(is_or_comes_from::<E>)
    }

    /// Retries errors that match, and no others but those that are named so too.
    pub fn only_if(
        mut self,
        matches: impl Fn(&(dyn Error + 'static)) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.only.push(Arc::new(matches));
        self
    }

    /// Never retries errors of type `E`.
    pub fn never<E: Error + 'static>(self) -> Self {
        self.never_if(is_or_comes_from::<E>)
    }

    /// Never retries errors that match.
    pub fn never_if(
        mut self,
        matches: impl Fn(&(dyn Error + 'static)) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.never.push(Arc::new(matches));
        self
    }

    /// The policy inside.
    pub fn policy(&self) -> &P {
        &self.policy
    }
}

impl<P: RetryPolicy> RetryPolicy for Filtered<P> {
    fn max_attempts(&self) -> u32 {
        self.policy.max_attempts()
    }

    fn next_delay(&self, attempt: u32, random: f64) -> Duration {
        self.policy.next_delay(attempt, random)
    }

    fn should_retry(&self, error: &(dyn Error + 'static)) -> bool {
        let any = |filters: &[Matches]| filters.iter().any(|matches| matches(error));
        let passes = if self.only.is_empty() { !any(&self.never) } else { any(&self.only) };
        passes && self.policy.should_retry(error)
    }

    fn check(&self) -> Result<(), RetryError> {
        self.policy.check()
    }
}

impl<P: fmt::Debug> fmt::Debug for Filtered<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Filtered")
            .field("policy", &self.policy)
            .field("only", &self.only.len())
            .field("never", &self.never.len())
            .finish()
    }
}

/// Whether an error, or one of its causes, is of this type.
pub(super) fn is_or_comes_from<E: Error + 'static>(error: &(dyn Error + 'static)) -> bool {
    any_cause(error, |cause| cause.is::<E>())
}

/// Whether an error, or one of its causes, matches.
pub(super) fn any_cause(
    error: &(dyn Error + 'static),
    matches: impl Fn(&(dyn Error + 'static)) -> bool,
) -> bool {
    std::iter::successors(Some(error), |error: &&(dyn Error + 'static)| (*error).source()).any(matches)
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;
    use crate::Retry;

    #[derive(Debug, thiserror::Error)]
    #[error("the gateway does not answer")]
    struct Gateway(#[source] io::Error);

    #[derive(Debug, thiserror::Error)]
    #[error("the card was declined")]
    struct Declined;

    fn gateway() -> Gateway {
        Gateway(io::Error::other("reset"))
    }

    /// T3: with an include list only those errors are retried, by type, by cause or by predicate.
    #[test]
    fn only_those_are_retried() {
        let policy = Retry::default().only::<io::Error>().only_if(|error| error.to_string().contains("card"));

        assert!(policy.should_retry(&io::Error::other("reset")));
        assert!(policy.should_retry(&gateway()), "by its cause");
        assert!(policy.should_retry(&Declined), "by its text");
        assert!(!policy.should_retry(&fmt::Error));
    }

    /// T3: with an exclude list those are never retried, and all others are.
    #[test]
    fn those_are_never_retried() {
        let policy = Retry::default().never::<Declined>().never_if(|error| error.is::<fmt::Error>());

        assert!(policy.should_retry(&gateway()));
        assert!(!policy.should_retry(&Declined) && !policy.should_retry(&fmt::Error));
    }

    /// T3: where both name an error, the include list wins.
    #[test]
    fn include_wins() {
        let policy = Retry::default().never::<io::Error>().only::<io::Error>();

        assert!(policy.should_retry(&io::Error::other("reset")));
        assert!(!policy.should_retry(&Declined), "it is not named");
    }

    /// T2, T3: a policy of the user's own stays in charge of all else.
    #[test]
    fn policy_inside_decides_the_rest() {
        let policy = Filtered::new(Retry::fixed(Duration::from_secs(7)).max_retries(2)).only::<io::Error>();

        assert_eq!((policy.max_attempts(), policy.next_delay(1, 0.5)), (3, Duration::from_secs(7)));
        assert!(!Filtered::new(policy.never::<Declined>()).should_retry(&Declined));
    }
}
