//! The seed of an nkey, which the client looks at when it connects only.

/// The digits of base32.
const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
/// So many of them are two bytes that say whose it is, 32 of the key, and two of their checksum.
const LENGTH: usize = 58;

/// A text that is no seed. It is not repeated: it may be one that has a letter too many.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this is no seed of a user's nkey; give all 58 letters and digits of it, which begin with `SU`")]
pub(super) struct NoSeed;

/// Refuses what is no seed of a user.
pub(super) fn check(seed: &str) -> Result<(), NoSeed> {
    let bytes = decoded(seed).ok_or(NoSeed)?;
    let (key, sum) = bytes.split_last_chunk().ok_or(NoSeed)?;
    match seed.len() == LENGTH && seed.starts_with("SU") && checksum(key) == u16::from_le_bytes(*sum) {
        true => Ok(()),
        false => Err(NoSeed),
    }
}

/// The bytes of a text in base32.
fn decoded(text: &str) -> Option<Vec<u8>> {
    let (mut bytes, mut bits, mut count) = (Vec::new(), 0_u16, 0);
    for digit in text.bytes() {
        let value = DIGITS.iter().position(|known| *known == digit)?;
        bits = bits << 5 | value as u16;
        count += 5;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
        }
    }
    let is_rest_empty = bits & ((1 << count) - 1) == 0;
    is_rest_empty.then_some(bytes)
}

/// CRC-16/XMODEM.
fn checksum(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |sum, byte| {
        let sum = sum ^ u16::from(*byte) << 8;
        (0..8).fold(sum, |sum, _| if sum & 0x8000 == 0 { sum << 1 } else { sum << 1 ^ 0x1021 })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// M4: a seed is told from what lacks a letter, has a wrong one, or is the key of somebody else.
    #[test]
    fn seeds_are_told_from_other_texts() {
        let seed = "SUAAOCAJBIFQYDIOB4IBCEQTCQKRMFYYDENBWHA5DYPSAIJCEMSCKJR2OM";

        assert_eq!(check(seed), Ok(()));
        for wrong in [
            "",
            "seventeen",
            &seed[..57],
            &format!("{seed}A"),
            &seed.replacen('B', "C", 1),
            &seed.replace("OM", "ON"),
            &seed.to_lowercase(),
            "SAAPN4W3EG6KCJGUQTKTJ5GSB5NHK5CHAJL4DBGFUM3HHROI4XUEP4OBK4",
        ] {
            assert_eq!(check(wrong), Err(NoSeed), "{wrong}");
        }
    }
}
