//! What a notification carries.

use std::fmt::Write;

use pillarbox::{PARTITIONS, PartitionSet};

/// Partitions per hexadecimal digit.
const PER_DIGIT: usize = 4;

/// A notification's content, taken apart.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Content<'a> {
    pub(super) sender: &'a str,
    pub(super) partitions: PartitionSet,
}

/// Who sends it and, after a colon, a bit for each partition in 64 hexadecimal digits: the lowest bit of the first digit
/// is that of partition 0. All partitions are told by the sender alone, as in versions that knew no others.
pub(super) fn write(sender: &str, partitions: PartitionSet) -> String {
    let mut content = sender.to_owned();
    if partitions != PartitionSet::ALL {
        content.push(':');
        let mut digits = [0_u8; PARTITIONS / PER_DIGIT];
        for partition in partitions.iter().map(usize::from) {
            digits[partition / PER_DIGIT] |= 1 << (partition % PER_DIGIT);
        }
        for digit in digits {
            // Writing to a string cannot fail.
            let _ = write!(content, "{digit:x}");
        }
    }
    content
}

/// Reads what [`write`] wrote; whatever else it is means all partitions.
pub(super) fn read(content: &str) -> Content<'_> {
    let (sender, digits) = content.split_once(':').unwrap_or((content, ""));
    Content { sender, partitions: partitions_of(digits).unwrap_or(PartitionSet::ALL) }
}

fn partitions_of(digits: &str) -> Option<PartitionSet> {
    let digits: Vec<u32> = digits.chars().map(|digit| digit.to_digit(16)).collect::<Option<_>>()?;
    let has = |partition: u8| {
        let place = usize::from(partition);
        digits[place / PER_DIGIT] >> (place % PER_DIGIT) & 1 == 1
    };
    (digits.len() == PARTITIONS / PER_DIGIT)
        .then(|| (0..=u8::MAX).filter(|&partition| has(partition)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// P5: what is written is read, whichever partitions it names, and is far from the 8,000 bytes of a notification.
    #[test]
    fn content_is_read_as_it_was_written() {
        let each = (0..=u8::MAX).map(|partition| PartitionSet::from_iter([partition]));
        let sets = [[].into_iter().collect(), PartitionSet::from_iter([0, 5, 64, 255]), PartitionSet::ALL];

        for partitions in each.chain(sets) {
            let content = write("00c0ffee", partitions);
            assert_eq!(read(&content), Content { sender: "00c0ffee", partitions });
            assert!(content.len() < 100);
        }
    }

    /// P5: the order of the digits stays as it is, for other versions read them too.
    #[test]
    fn first_digit_is_of_the_first_partitions() {
        let content = write("a", PartitionSet::from_iter([0, 5, 255]));

        assert_eq!(content, format!("a:12{}8", "0".repeat(61)));
    }

    /// P5, W12: contents of older versions, of plain SQL and of versions to come name all partitions.
    #[test]
    fn unknown_content_names_all() {
        let (short, long) = ("a:".to_owned() + &"f".repeat(63), "a:".to_owned() + &"0".repeat(65));
        let strange = "a:".to_owned() + &"g".repeat(64);

        for content in ["", "0123456789abcdef", "a:", "orders are here", &short, &long, &strange] {
            assert_eq!(read(content).partitions, PartitionSet::ALL, "{content}");
        }
    }
}
