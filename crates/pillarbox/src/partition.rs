//! Which partition a key belongs to.

mod set;

pub use set::PartitionSet;

/// How many partitions there are.
pub const PARTITIONS: usize = 256;

/// The partition of a key: the low byte of MurmurHash3 (x86, 32 bits, seed 0) of its UTF-8.
///
/// Writers in other languages and the triggers of the migrations compute the same; test vectors are in the
/// guide. All events of one key are in one partition.
///
/// ```
/// assert_eq!(pillarbox::partition_of("order-17"), pillarbox::partition_of("order-17"));
/// ```
pub fn partition_of(key: &str) -> u8 {
    murmur3(key.as_bytes()).to_le_bytes()[0]
}

fn murmur3(bytes: &[u8]) -> u32 {
    let (blocks, tail) = bytes.as_chunks::<4>();
    let hash = blocks.iter().fold(0, |hash: u32, block| {
        let hash = hash ^ scramble(u32::from_le_bytes(*block));
        hash.rotate_left(13).wrapping_mul(5).wrapping_add(0xe654_6b64)
    });
    let tail = tail.iter().rev().fold(0, |tail, &byte| tail << 8 | u32::from(byte));
    // The algorithm counts modulo 2³², and keys are far shorter.
    finish(hash ^ scramble(tail) ^ bytes.len() as u32)
}

fn scramble(block: u32) -> u32 {
    block.wrapping_mul(0xcc9e_2d51).rotate_left(15).wrapping_mul(0x1b87_3593)
}

fn finish(hash: u32) -> u32 {
    let hash = (hash ^ hash >> 16).wrapping_mul(0x85eb_ca6b);
    let hash = (hash ^ hash >> 13).wrapping_mul(0xc2b2_ae35);
    hash ^ hash >> 16
}
