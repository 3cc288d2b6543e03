//! Keys and partitions.

use pillarbox::partition_of;
use pillarbox_testkit::partition_vectors::VECTORS;

/// O3: the partition of a key is what every other implementation of MurmurHash3 computes.
#[test]
fn partitions_are_those_of_other_implementations() {
    for &(key, _, partition) in VECTORS {
        assert_eq!(partition_of(key), partition, "of the key {key:?}");
    }
}

/// O3: keys spread over the partitions, none of which gets more than its share and a half.
#[test]
fn keys_spread_evenly() {
    let mut keys_of = [0; pillarbox::PARTITIONS];
    for order in 0..256_000 {
        keys_of[usize::from(partition_of(&format!("order-{order}")))] += 1;
    }

    assert!(keys_of.iter().all(|keys| (500..=1_500).contains(keys)), "{keys_of:?}");
}
