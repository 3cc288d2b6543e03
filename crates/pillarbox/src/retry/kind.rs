//! Kinds of errors: stable names by which a file can speak of them.

use std::error::Error;
use std::io;
use std::sync::Arc;

use super::filter::{Matches, any_cause, is_or_comes_from};
use crate::dispatcher::Fault;
use crate::spelling::nearest;

/// An error that says of which kind it is, by a name that does not change when a type is renamed; for the lists
/// `retry.only` and `retry.never` of [`Settings`](crate::Settings).
///
/// Make its kinds known with [`error_kinds`](crate::OutboxBuilder::error_kinds).
///
/// ```
/// use pillarbox::ErrorKind;
///
/// #[derive(Debug, thiserror::Error)]
/// enum PaymentError {
///     #[error("the card was declined")]
///     Declined,
///     #[error("too many requests")]
///     TooMany,
/// }
///
/// impl ErrorKind for PaymentError {
///     const KINDS: &'static [&'static str] = &["declined", "rate_limited"];
///
///     fn kind(&self) -> &'static str {
///         match self {
///             Self::Declined => "declined",
///             Self::TooMany => "rate_limited",
///         }
///     }
/// }
/// ```
pub trait ErrorKind: Error + 'static {
    /// All kinds that [`kind`](Self::kind) can answer.
    const KINDS: &'static [&'static str];

    /// The kind of this error.
    fn kind(&self) -> &'static str;
}

/// The kinds that an outbox knows.
#[derive(Clone)]
pub(crate) struct Kinds(Vec<(String, Matches)>);

impl Default for Kinds {
    /// `io`, `panic` and `timeout`.
    fn default() -> Self {
        let mut kinds = Self(Vec::new());
        kinds.add("io".to_owned(), is_or_comes_from::<io::Error>);
        kinds.add("panic".to_owned(), |error| matches!(error.downcast_ref(), Some(Fault::Panicked(_))));
        kinds.add("timeout".to_owned(), |error| any_cause(error, is_timeout));
        kinds
    }
}

impl Kinds {
    pub(crate) fn add(
        &mut self,
        name: String,
        matches: impl Fn(&(dyn Error + 'static)) -> bool + Send + Sync + 'static,
    ) {
        self.0.push((name, Arc::new(matches)));
    }

    pub(crate) fn add_all<E: ErrorKind>(&mut self) {
        for kind in E::KINDS {
            let is_it = |error: &(dyn Error + 'static)| {
                error.downcast_ref::<E>().is_some_and(|error| error.kind() == *kind)
            };
            self.add((*kind).to_owned(), move |error| any_cause(error, is_it));
        }
    }

    /// What matches errors of this kind; otherwise which kinds there are.
    pub(super) fn find(&self, kind: &str) -> Result<Matches, String> {
        let all: Vec<Matches> =
            self.0.iter().filter(|(name, _)| name == kind).map(|(_, matches)| matches.clone()).collect();
        if all.is_empty() {
            return Err(self.hint(kind));
        }
        Ok(Arc::new(move |error| all.iter().any(|matches| matches(error))))
    }

    fn hint(&self, kind: &str) -> String {
        let mut known: Vec<&str> = self.0.iter().map(|(name, _)| name.as_str()).collect();
        known.sort_unstable();
        known.dedup();
        let meant = nearest(kind, &known).map(|near| format!("did you mean `{near}`? ")).unwrap_or_default();
        format!(
            "{meant}known are `{}`; make others known with `error_kinds` or `error_kind`",
            known.join("`, `")
        )
    }
}

/// Whether an error, not counting its causes, says that something took too long.
fn is_timeout(error: &(dyn Error + 'static)) -> bool {
    let is_io = |error: &io::Error| error.kind() == io::ErrorKind::TimedOut;
    matches!(error.downcast_ref(), Some(Fault::TimedOut(_)))
        || error.is::<tokio::time::error::Elapsed>()
        || error.downcast_ref::<io::Error>().is_some_and(is_io)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("the payment failed")]
    struct Payment(#[source] Cause);

    #[derive(Debug, thiserror::Error)]
    enum Cause {
        #[error("declined")]
        Declined,
        #[error("too many requests")]
        TooMany,
    }

    impl ErrorKind for Cause {
        const KINDS: &'static [&'static str] = &["declined", "rate_limited"];

        fn kind(&self) -> &'static str {
            match self {
                Self::Declined => "declined",
                Self::TooMany => "rate_limited",
            }
        }
    }

    fn is(kinds: &Kinds, kind: &str, error: &(dyn Error + 'static)) -> bool {
        kinds.find(kind).unwrap()(error)
    }

    /// T3: the kinds that are always there.
    #[test]
    fn built_in_kinds_match() {
        let kinds = Kinds::default();
        let (reset, late) = (io::Error::other("reset"), io::Error::from(io::ErrorKind::TimedOut));

        assert!(is(&kinds, "io", &reset) && is(&kinds, "io", &late));
        assert!(is(&kinds, "timeout", &late) && !is(&kinds, "timeout", &reset));
        assert!(is(&kinds, "timeout", &Fault::TimedOut(Duration::ZERO)));
        assert!(is(&kinds, "panic", &Fault::Panicked(String::new())));
        assert!(
            !is(&kinds, "panic", &Fault::TimedOut(Duration::ZERO)) && !is(&kinds, "io", &std::fmt::Error)
        );
    }

    /// T3: an error of the user's says its kind, as a cause of another too.
    #[test]
    fn kinds_of_ones_own_match() {
        let mut kinds = Kinds::default();
        kinds.add_all::<Cause>();
        kinds.add("declined".to_owned(), |error| error.is::<std::fmt::Error>());

        assert!(
            is(&kinds, "declined", &Payment(Cause::Declined)) && is(&kinds, "declined", &std::fmt::Error)
        );
        assert!(is(&kinds, "rate_limited", &Cause::TooMany) && !is(&kinds, "declined", &Cause::TooMany));
    }

    /// T3: an unknown kind is answered with those that there are.
    #[test]
    fn unknown_kinds_are_answered() {
        let answer = |kind| Kinds::default().find(kind).err().unwrap();

        assert_eq!(
            answer("timeuot"),
            "did you mean `timeout`? known are `io`, `panic`, `timeout`; make others known with `error_kinds` or `error_kind`"
        );
        assert!(answer("declined").starts_with("known are `io`"));
    }
}
