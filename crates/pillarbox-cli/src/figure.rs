//! Numbers and texts as people read them.

use std::time::Duration;

/// `1234567` as `1,234,567`.
pub(crate) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// `1 event`, `1,234 events`.
pub(crate) fn events(number: u64) -> String {
    format!("{} event{}", count(number), if number == 1 { "" } else { "s" })
}

/// `1 dead event`, `1,234 dead events`.
pub(crate) fn dead_events(number: u64) -> String {
    format!("{} dead event{}", count(number), if number == 1 { "" } else { "s" })
}

/// How many of something there are in a second: `0.5/s`, `12.3/s`, `1,234/s`.
pub(crate) fn rate(per_second: f64) -> String {
    match per_second {
        few if few < 99.95 => format!("{few:.1}/s"),
        many => format!("{}/s", count(many.round() as u64)),
    }
}

/// A duration in the unit that fits: `310 µs`, `2.1 ms`, `4.2 s`, `3 min 20 s`, `2 h 5 min`, `3 d 4 h`.
pub(crate) fn time(duration: Duration) -> String {
    let micros = duration.as_micros();
    let seconds = duration.as_secs();
    match micros {
        0..1_000 => format!("{micros} µs"),
        1_000..1_000_000 => format!("{:.1} ms", duration.as_secs_f64() * 1e3),
        1_000_000..60_000_000 => format!("{:.1} s", duration.as_secs_f64()),
        _ if seconds < 3_600 => format!("{} min {} s", seconds / 60, seconds % 60),
        _ if seconds < 86_400 => format!("{} h {} min", seconds / 3_600, seconds / 60 % 60),
        _ => format!("{} d {} h", count(seconds / 86_400), seconds / 3_600 % 24),
    }
}

/// A text on one line that cannot play tricks on a terminal: control characters are written out.
pub(crate) fn plain(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        if character.is_control() {
            shown.extend(character.escape_default());
        } else {
            shown.push(character);
        }
    }
    shown
}

/// A text of at most `most` characters, the last one an ellipsis if something was cut off.
pub(crate) fn short(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    text.chars().take(most.saturating_sub(1)).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_grouped() {
        for (number, text) in [(0, "0"), (999, "999"), (1_000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(count(number), text);
        }
        assert_eq!((events(1).as_str(), events(2).as_str()), ("1 event", "2 events"));
    }

    #[test]
    fn rates_have_a_fraction_while_it_matters() {
        for (per_second, text) in [(0.0, "0.0/s"), (12.34, "12.3/s"), (99.96, "100/s"), (1_234.5, "1,235/s")]
        {
            assert_eq!(rate(per_second), text);
        }
    }

    #[test]
    fn durations_have_the_unit_that_fits() {
        for (micros, text) in [
            (310, "310 µs"),
            (2_140, "2.1 ms"),
            (4_200_000, "4.2 s"),
            (200_000_000, "3 min 20 s"),
            (7_500_000_000, "2 h 5 min"),
            (273_600_000_000, "3 d 4 h"),
        ] {
            assert_eq!(time(Duration::from_micros(micros)), text);
        }
    }

    #[test]
    fn control_characters_are_written_out() {
        assert_eq!(plain("a\u{1b}[2J\nb ä"), "a\\u{1b}[2J\\nb ä");
    }

    #[test]
    fn long_texts_end_with_an_ellipsis() {
        assert_eq!(short("häuser", 6), "häuser");
        assert_eq!(short("häuser", 4), "häu…");
    }
}
