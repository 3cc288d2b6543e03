//! Secrets that can be found again, in whatever form they are shown.

use crate::everywhere::Everywhere;
use crate::program::Answer;

/// What every secret of ours has in it.
pub(crate) const MARK: &str = "Xq7MARKoftherelay17";

/// What must not be shown.
pub(crate) struct Marks(Vec<String>);

impl Marks {
    /// Our own mark, these others, and the password of the servers; plain, in base64 and as a list of bytes.
    pub(crate) fn of(brokers: &Everywhere, others: &[&str]) -> Self {
        let login = brokers.redis.url.split_once("://").unwrap().1.split_once('@').unwrap().0;
        let secrets = [MARK, login.trim_start_matches(':')].into_iter().chain(others.iter().copied());
        let forms = secrets.flat_map(|secret| {
            let bytes = format!("{:?}", secret.as_bytes());
            let bytes = bytes.trim_matches(['[', ']']).to_owned();
            let pieces = (0..3).map(move |offset| encoded(&secret.as_bytes()[offset..]));
            [secret.to_owned(), bytes].into_iter().chain(pieces)
        });
        Self(forms.collect())
    }

    /// Fails if one of them is in `text`.
    pub(crate) fn assert_absent(&self, place: &str, text: &str) {
        for mark in &self.0 {
            let Some(line) = text.lines().find(|line| line.contains(mark.as_str())) else { continue };
            panic!("a secret is in {place}: {}", line.replace(mark.as_str(), "<the secret>"));
        }
    }

    /// Fails if one of them is in what the program said.
    pub(crate) fn assert_absent_in(&self, answer: &Answer) {
        self.assert_absent("stdout", &answer.out);
        self.assert_absent("stderr", &answer.err);
    }
}

/// Whole groups of three bytes in base64: what is seen of a secret wherever it stands in an encoded text, if one group
/// begins with its first byte.
fn encoded(secret: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let letters = secret.chunks_exact(3).flat_map(|group| {
        let bits = group.iter().fold(0, |bits, byte| (bits << 8) | usize::from(*byte));
        [18, 12, 6, 0].map(|shift| char::from(LETTERS[(bits >> shift) & 63]))
    });
    letters.collect()
}
