//! Some of the partitions, or all.

use std::ops::BitOrAssign;

use super::PARTITIONS;

const WORDS: usize = PARTITIONS / 64;

/// A set of partitions, in 32 bytes; empty by default.
///
/// ```
/// use pillarbox::PartitionSet;
///
/// let written = PartitionSet::from_iter([7, 200, 7]);
/// assert_eq!(written.iter().collect::<Vec<u8>>(), [7, 200]);
/// assert!(PartitionSet::ALL.contains(8) && !written.contains(8));
/// ```
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct PartitionSet {
    words: [u64; WORDS],
}

impl PartitionSet {
    /// All partitions: what is said when nobody knows which.
    pub const ALL: Self = Self { words: [u64::MAX; WORDS] };

    /// Whether there is none in it.
    pub fn is_empty(&self) -> bool {
        self.words == [0; WORDS]
    }

    /// Whether this one is in it.
    pub fn contains(&self, partition: u8) -> bool {
        let (word, bit) = place_of(partition);
        self.words[word] & bit != 0
    }

    /// Those that are in it, in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = u8> + use<> {
        let set = *self;
        (0..=u8::MAX).filter(move |&partition| set.contains(partition))
    }
}

impl FromIterator<u8> for PartitionSet {
    fn from_iter<I: IntoIterator<Item = u8>>(partitions: I) -> Self {
        let mut set = Self::default();
        for partition in partitions {
            let (word, bit) = place_of(partition);
            set.words[word] |= bit;
        }
        set
    }
}

impl BitOrAssign for PartitionSet {
    fn bitor_assign(&mut self, other: Self) {
        for (word, more) in self.words.iter_mut().zip(other.words) {
            *word |= more;
        }
    }
}

impl std::fmt::Debug for PartitionSet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if *self == Self::ALL { f.write_str("all") } else { f.debug_set().entries(self.iter()).finish() }
    }
}

fn place_of(partition: u8) -> (usize, u64) {
    (usize::from(partition / 64), 1 << (partition % 64))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// O3: every partition has a place of its own, at the edges too.
    #[test]
    fn each_partition_is_its_own() {
        for partition in 0..=u8::MAX {
            let set = PartitionSet::from_iter([partition]);
            assert_eq!(set.iter().collect::<Vec<u8>>(), [partition]);
        }

        assert_eq!(PartitionSet::from_iter(0..=u8::MAX), PartitionSet::ALL);
        assert!(PartitionSet::default().is_empty());
    }

    /// P5: what is gathered is what each has named.
    #[test]
    fn sets_are_joined() {
        let mut joined = PartitionSet::from_iter([3, 64]);
        joined |= PartitionSet::from_iter([3, 255]);

        assert_eq!(joined, PartitionSet::from_iter([3, 64, 255]));
        assert_eq!(format!("{joined:?}"), "{3, 64, 255}");

        joined |= PartitionSet::ALL;
        assert_eq!(format!("{joined:?}"), "all");
    }
}
