//! The seed of an nkey, which the client looks at when it connects only.

use nkeys::{KeyPair, KeyPairType};

/// A text that is no seed. It is not repeated: it may be one that has a letter too many.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this is no seed of a user's nkey; give all 58 letters and digits of it, which begin with `SU`")]
pub(super) struct NoSeed;

/// Refuses what is no seed of a user.
pub(super) fn check(seed: &str) -> Result<(), NoSeed> {
    let pair = KeyPair::from_seed(seed).map_err(|_| NoSeed)?;
    if pair.key_pair_type() == KeyPairType::User { Ok(()) } else { Err(NoSeed) }
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
