//! Names with wildcards.

/// A name in which `*` stands for any characters, or for none, as in the conditions of a [`Route`](crate::Route). Case
/// matters.
///
/// ```
/// use pillarbox::Pattern;
///
/// assert!(Pattern::new("Order*").matches("OrderPlaced"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    /// What stands before, between and behind the wildcards.
    parts: Vec<String>,
}

impl Pattern {
    /// The pattern that this text is. Every text is one.
    pub fn new(text: &str) -> Self {
        Self { parts: text.split('*').map(str::to_owned).collect() }
    }

    /// Whether a name is one of those that it stands for.
    pub fn matches(&self, name: &str) -> bool {
        let [first, between @ .., last] = &self.parts[..] else {
            return self.parts.first().is_some_and(|whole| whole == name);
        };
        let Some(mut rest) = name.strip_prefix(first.as_str()) else { return false };
        for part in between {
            // The earliest place leaves the most for those that follow.
            let Some(at) = rest.find(part.as_str()) else { return false };
            rest = &rest[at + part.len()..];
        }
        rest.ends_with(last.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// K1: a wildcard stands for any characters, or for none.
    #[test]
    fn wildcards_match_anything() {
        for (pattern, name, expected) in [
            ("OrderPlaced", "OrderPlaced", true),
            ("OrderPlaced", "OrderPlacedTwice", false),
            ("OrderPlaced", "orderplaced", false),
            ("Order*", "Order", true),
            ("Order*", "OrderPlaced", true),
            ("Order*", "MyOrder", false),
            ("*Placed", "OrderPlaced", true),
            ("*Placed", "Placed!", false),
            ("*", "", true),
            ("", "", true),
            ("", "x", false),
            ("a*b*c", "a-b-b-c", true),
            ("a*b*c", "acb", false),
            ("a*a", "a", false),
            ("ab*ba", "aba", false),
            ("**", "anything", true),
        ] {
            assert_eq!(Pattern::new(pattern).matches(name), expected, "{pattern} {name}");
        }
    }

    /// The same, by trying every way.
    fn by_trying(pattern: &[char], name: &[char]) -> bool {
        match (pattern, name) {
            ([], []) => true,
            (['*', rest @ ..], _) => (0..=name.len()).any(|taken| by_trying(rest, &name[taken..])),
            ([one, rest @ ..], [same, others @ ..]) if one == same => by_trying(rest, others),
            _ => false,
        }
    }

    proptest! {
        /// K1: the earliest place is as good as any.
        #[test]
        fn greedy_matching_misses_nothing(pattern in "[ab*]{0,8}", name in "[ab]{0,10}") {
            let chars = |text: &str| text.chars().collect::<Vec<_>>();

            prop_assert_eq!(Pattern::new(&pattern).matches(&name), by_trying(&chars(&pattern), &chars(&name)));
        }
    }
}
