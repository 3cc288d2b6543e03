//! Which word was meant by one that is misspelt; for the answers of this crate and of its stores.

/// A word that differs from a known one in so many characters may be meant for it.
const NEAR: usize = 2;

/// The word of `known` that `word` is probably meant for.
pub fn nearest<'k>(word: &str, known: &[&'k str]) -> Option<&'k str> {
    let distances = known.iter().map(|known| (distance(word, known), *known));
    distances.min().filter(|(distance, _)| *distance <= NEAR).map(|(_, known)| known)
}

/// How many characters must be added, removed or changed to make `b` of `a`.
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

    /// The distance of two words is the least number of changes.
    #[test]
    fn words_have_a_distance() {
        for (a, b, changes) in
            [("", "", 0), ("host", "host", 0), ("hots", "host", 2), ("hst", "host", 1), ("", "host", 4)]
        {
            assert_eq!((distance(a, b), distance(b, a)), (changes, changes), "{a} {b}");
        }
    }

    #[test]
    fn nearest_word_is_found_unless_all_are_far() {
        assert_eq!(nearest("workes", &["margin", "workers"]), Some("workers"));
        assert_eq!(nearest("colour", &["margin", "workers"]), None);
    }
}
