//! What an operator changes in the stored progress of an event's handlers, as pure decisions.

use super::progress::{Standing, Unreadable, read, written};

/// Where a handler stands with an event, for people who look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Done,
    Owed {
        /// Whether the instance that looked last has no handler of this id.
        is_unknown: bool,
    },
    Dead,
}

/// What becomes of a stored text.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Revised {
    /// It does not name the handler.
    Unconcerned,
    /// It names the old id and the new one.
    HasBoth,
    /// It becomes this one.
    Becomes {
        text: String,
        /// Whether nobody is dead any more who was: there is nothing left that the event is dead for.
        is_cured: bool,
    },
}

/// All handlers that a stored text names.
pub(crate) fn states(text: &str) -> Result<Vec<(String, State)>, Unreadable> {
    let state = |standing| match standing {
        Standing::Done => State::Done,
        Standing::Owed { unknown, .. } => State::Owed { is_unknown: unknown },
        Standing::Dead { .. } => State::Dead,
    };
    Ok(read(text)?.into_iter().map(|(id, standing)| (id, state(standing))).collect())
}

/// The text without a handler. It stays one even if it names nobody any more: without it an event for which no handler is
/// registered would wait for a listener.
pub(crate) fn dropped(text: &str, id: &str) -> Result<Revised, Unreadable> {
    let mut all = read(text)?;
    let Some(gone) = all.remove(id) else { return Ok(Revised::Unconcerned) };
    let is_dead = |standing: &Standing| matches!(standing, Standing::Dead { .. });
    let is_cured = is_dead(&gone) && !all.values().any(is_dead);
    Ok(Revised::Becomes { text: written(&all), is_cured })
}

/// The text in which a handler has another id, and stands where it stood.
pub(crate) fn renamed(text: &str, from: &str, to: &str) -> Result<Revised, Unreadable> {
    let mut all = read(text)?;
    let Some(standing) = all.remove(from) else { return Ok(Revised::Unconcerned) };
    if from == to || all.contains_key(to) {
        return Ok(Revised::HasBoth);
    }
    // Nobody has looked yet whether the new one is registered.
    let standing = match standing {
        Standing::Owed { failures, after_us, .. } => Standing::Owed { failures, after_us, unknown: false },
        other => other,
    };
    all.insert(to.to_owned(), standing);
    Ok(Revised::Becomes { text: written(&all), is_cured: false })
}

#[cfg(test)]
mod tests {
    use super::*;

    const STORED: &str = r#"{"billing":"done","mail":{"dead":{"failures":3}},"search":{"owed":{"failures":2,"after_us":7,"unknown":true}}}"#;

    fn becomes(text: &str, is_cured: bool) -> Revised {
        Revised::Becomes { text: text.to_owned(), is_cured }
    }

    /// L3: who is dropped is gone, and all others stand where they stood.
    #[test]
    fn drop_leaves_the_others() {
        let left = r#"{"billing":"done","mail":{"dead":{"failures":3}}}"#;
        assert_eq!(dropped(STORED, "search").unwrap(), becomes(left, false));

        assert_eq!(dropped(left, "mail").unwrap(), becomes(r#"{"billing":"done"}"#, true));
        assert_eq!(dropped(left, "sear").unwrap(), Revised::Unconcerned);
        assert_eq!(dropped(r#"{"mail":"done"}"#, "mail").unwrap(), becomes("{}", false));
    }

    /// L3: an event that somebody else is dead for too is not cured.
    #[test]
    fn second_dead_handler_keeps_the_event_dead() {
        let two = r#"{"audit":{"dead":{"failures":1}},"mail":{"dead":{"failures":3}}}"#;

        assert_eq!(dropped(two, "mail").unwrap(), becomes(r#"{"audit":{"dead":{"failures":1}}}"#, false));
    }

    /// L3: the new id has the progress of the old one, and nobody says yet that it is unknown.
    #[test]
    fn rename_keeps_the_progress() {
        let stored = r#"{"search":{"owed":{"failures":2,"after_us":7,"unknown":true}}}"#;
        let renamed_so = becomes(r#"{"index":{"owed":{"failures":2,"after_us":7}}}"#, false);
        assert_eq!(renamed(stored, "search", "index").unwrap(), renamed_so);

        let dead = r#"{"mail":{"dead":{"failures":3}}}"#;
        let renamed_so = becomes(r#"{"post":{"dead":{"failures":3}}}"#, false);
        assert_eq!(renamed(dead, "mail", "post").unwrap(), renamed_so);
    }

    /// L3: two handlers are never made one.
    #[test]
    fn rename_to_one_that_is_there_is_refused() {
        assert_eq!(renamed(STORED, "search", "billing").unwrap(), Revised::HasBoth);
        assert_eq!(renamed(STORED, "search", "search").unwrap(), Revised::HasBoth);
        assert_eq!(renamed(STORED, "index", "billing").unwrap(), Revised::Unconcerned);
    }

    /// L3: people see where each stands, and who is unknown.
    #[test]
    fn states_are_told() {
        let told = states(STORED).unwrap();

        let expected =
            [("billing", State::Done), ("mail", State::Dead), ("search", State::Owed { is_unknown: true })];
        assert_eq!(told, expected.map(|(id, state)| (id.to_owned(), state)));
    }
}
