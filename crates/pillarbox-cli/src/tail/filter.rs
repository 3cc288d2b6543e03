//! Which events are shown.

use clap::Args;
use pillarbox::store::Outline;

/// Which events are shown.
#[derive(Args, Debug, Default)]
pub(super) struct Filter {
    /// Only events of this type; `*` stands for any characters. May be given several times
    #[arg(long = "type", value_name = "TYPE")]
    types: Vec<String>,

    /// Only events with this key. May be given several times
    #[arg(long = "key", value_name = "KEY")]
    keys: Vec<String>,
}

impl Filter {
    pub(super) fn takes(&self, outline: &Outline) -> bool {
        let is_of_type =
            self.types.is_empty() || self.types.iter().any(|pattern| matches(pattern, &outline.event_type));
        let has_key = self.keys.is_empty() || outline.key.as_ref().is_some_and(|key| self.keys.contains(key));
        is_of_type && has_key
    }
}

/// Whether `text` is what `pattern` says, in which `*` stands for any characters.
fn matches(pattern: &str, text: &str) -> bool {
    let Some((head, tail)) = pattern.split_once('*') else { return pattern == text };
    let Some(rest) = text.strip_prefix(head) else { return false };
    rest.char_indices().map(|(at, _)| &rest[at..]).chain([""]).any(|rest| matches(tail, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_stand_for_any_characters() {
        for (pattern, text, is_match) in [
            ("OrderPlaced", "OrderPlaced", true),
            ("OrderPlaced", "OrderPlacedAgain", false),
            ("Order*", "OrderPlaced", true),
            ("Order*", "Order", true),
            ("*Placed", "OrderPlaced", true),
            ("*Placed", "OrderPlacedAgain", false),
            ("O*r*d", "OrderPlaced", true),
            ("*", "", true),
            ("ä*", "äh", true),
            ("order*", "OrderPlaced", false),
        ] {
            assert_eq!(matches(pattern, text), is_match, "{pattern} {text}");
        }
    }
}
