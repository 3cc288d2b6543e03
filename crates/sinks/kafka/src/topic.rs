//! Names of topics.

/// The longest name of a topic.
const LONGEST: usize = 249;

/// Why a name is none that events are published to; nothing if it is one.
pub(crate) fn flaw(name: &str) -> Option<String> {
    let is_fit = |character: char| character.is_ascii_alphanumeric() || "._-".contains(character);
    if name.is_empty() {
        return Some("the topic is empty".to_owned());
    }
    if let Some(unfit) = name.chars().find(|character| !is_fit(*character)) {
        return Some(format!(
            "`{}` is no topic of Kafka: it has {unfit:?}, and a topic consists of letters, digits, `.`, `_` and `-`",
            shown(name)
        ));
    }
    if name.len() > LONGEST {
        let length = name.len();
        return Some(format!(
            "`{}…` is no topic of Kafka: it has {length} characters, the limit is {LONGEST}",
            shown(name)
        ));
    }
    if name == "." || name == ".." {
        return Some(format!("`{name}` is no topic of Kafka"));
    }
    name.starts_with("__").then(|| {
        format!("`{name}` is no topic for events: names that begin with `__` belong to Kafka itself")
    })
}

/// The beginning of a name that may be anything, fit to be shown.
fn shown(name: &str) -> String {
    name.chars().take(80).flat_map(char::escape_default).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// K1: what Kafka takes is taken.
    #[test]
    fn names_of_topics_are_taken() {
        for name in ["orders", "Shop.orders_v1-eu", "_orders", "...", &"o".repeat(LONGEST)] {
            assert_eq!(flaw(name), None, "{name}");
        }
    }

    /// K1: what Kafka would refuse, and its own topics, are refused, and the text says why.
    #[test]
    fn other_names_are_refused_and_say_why() {
        let long = "o".repeat(LONGEST + 1);
        for (name, why) in [
            ("", "the topic is empty"),
            ("orders/eu", "it has '/'"),
            ("orders eu", "it has ' '"),
            ("orders\n", r"`orders\n` is no topic of Kafka: it has '\n'"),
            ("best\u{e4}tigt", "letters, digits"),
            ("..", "`..` is no topic of Kafka"),
            ("__consumer_offsets", "belong to Kafka itself"),
            (&long, "it has 250 characters, the limit is 249"),
        ] {
            let text = flaw(name).unwrap();
            assert!(text.contains(why), "{text}");
        }
    }
}
