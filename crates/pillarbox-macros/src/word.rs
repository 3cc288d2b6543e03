//! The words of `#[event(...)]`.

use proc_macro2::Ident;
use syn::Error;

/// The words that a type understands.
pub(crate) const ON_TYPE: [&str; 9] =
    ["type", "aggregate", "id", "key", "no_key", "tenant", "header", "context", "codec"];

/// The words that a field understands.
pub(crate) const ON_FIELD: [&str; 5] = ["id", "key", "tenant", "header", "context"];

/// What the builder and the table call it.
const ELSEWHERE: [(&str, &str); 5] = [
    ("event_type", "type"),
    ("name", "type"),
    ("aggregate_type", "aggregate"),
    ("aggregate_id", "id"),
    ("tenant_id", "tenant"),
];

/// How many letters may be wrong.
const NEAR: usize = 2;

/// How a word of a type is used.
pub(crate) fn example(word: &str) -> &'static str {
    match word {
        "type" => r#"type = "OrderPlaced""#,
        "aggregate" => r#"aggregate = "Order""#,
        "key" => "key = self.customer_id",
        "no_key" => "no_key",
        "tenant" => "tenant = self.shop",
        "header" => r#"header("source" = self.source)"#,
        "context" => r#"context("region" = self.region)"#,
        "codec" => "codec = MessagePack",
        _ => "id = self.order_id",
    }
}

/// The word of `known` that `word` is probably meant for.
pub(crate) fn nearest(word: &str, known: &[&'static str]) -> Option<&'static str> {
    let elsewhere = ELSEWHERE.iter().find(|(other, _)| *other == word).map(|(_, meant)| *meant);
    let distances = known.iter().map(|known| (distance(word, known), *known));
    let near = distances.min().filter(|(distance, _)| *distance <= NEAR).map(|(_, known)| known);
    elsewhere.filter(|meant| known.contains(meant)).or(near)
}

/// The answer to a word that is none of `known`.
pub(crate) fn unknown(word: &Ident, known: &[&'static str]) -> Error {
    let hint = match nearest(&word.to_string(), known) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("known are `{}`", known.join("`, `")),
    };
    Error::new(word.span(), format!("unknown word `{word}`; {hint}"))
}

/// How many letters must be added, removed or changed to make `b` of `a`.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, to) in b.iter().enumerate() {
            let changed = diagonal + usize::from(from != *to);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// W10: a word that is misspelt, or called so by the builder, is answered with the right one.
    #[test]
    fn nearest_word_is_found() {
        let meant = |word| nearest(word, &ON_TYPE);

        assert_eq!((meant("agregate"), meant("aggregat")), (Some("aggregate"), Some("aggregate")));
        assert_eq!((meant("typ"), meant("headers")), (Some("type"), Some("header")));
        assert_eq!((meant("aggregate_id"), meant("event_type")), (Some("id"), Some("type")));
        assert_eq!(meant("colour"), None);
        assert_eq!(nearest("event_type", &ON_FIELD), None);
    }
}
