//! Signatures as [Standard Webhooks](https://www.standardwebhooks.com) has them.

use std::fmt;
use std::str::FromStr;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

const PREFIX: &str = "whsec_";
const SHORTEST: usize = 24;
const LONGEST: usize = 64;

/// What a webhook is signed with: `whsec_` and 24 to 64 random bytes in base64. It is never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct WebhookSecret(Vec<u8>);

/// A text that is no secret for webhooks. It does not repeat the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadSecret {
    /// It does not begin as a secret does.
    #[error("a secret for webhooks begins with `whsec_`")]
    NoPrefix,
    /// What follows is no base64.
    #[error("a secret for webhooks has base64 after `whsec_`, and this is none")]
    NotBase64,
    /// It is too short to be safe, or too long.
    #[error("a secret for webhooks has 24 to 64 bytes after `whsec_`, and this has {0}")]
    WrongLength(usize),
}

impl WebhookSecret {
    /// The signature of a webhook: its version, and the code in base64.
    fn sign(&self, id: &str, timestamp: u64, body: &[u8]) -> String {
        // HMAC takes keys of any length.
        let Ok(mut code) = Hmac::<Sha256>::new_from_slice(&self.0) else { return String::new() };
        code.update(format!("{id}.{timestamp}.").as_bytes());
        code.update(body);
        format!("v1,{}", STANDARD.encode(code.finalize().into_bytes()))
    }
}

/// The signatures by all of the secrets, as the header has them.
pub(crate) fn signatures(secrets: &[WebhookSecret], id: &str, timestamp: u64, body: &[u8]) -> String {
    secrets.iter().map(|secret| secret.sign(id, timestamp, body)).collect::<Vec<_>>().join(" ")
}

impl FromStr for WebhookSecret {
    type Err = BadSecret;

    fn from_str(text: &str) -> Result<Self, BadSecret> {
        let encoded = text.strip_prefix(PREFIX).ok_or(BadSecret::NoPrefix)?;
        let bytes = STANDARD.decode(encoded).map_err(|_| BadSecret::NotBase64)?;
        match bytes.len() {
            SHORTEST..=LONGEST => Ok(Self(bytes)),
            length => Err(BadSecret::WrongLength(length)),
        }
    }
}

impl fmt::Debug for WebhookSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WebhookSecret(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

    /// K2: the example that the makers of the standard give.
    #[test]
    fn known_example_is_signed_alike() {
        let secret: WebhookSecret = SECRET.parse().unwrap();

        let signature =
            secret.sign("msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, br#"{"test": 2432232314}"#);

        assert_eq!(signature, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }

    /// K2: while secrets change there is a signature by each, the newest first.
    #[test]
    fn every_secret_signs() {
        let old: WebhookSecret = SECRET.parse().unwrap();
        let new: WebhookSecret = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD".parse().unwrap();

        let header = signatures(&[new.clone(), old.clone()], "01J", 17, b"{}");

        assert_eq!(header, format!("{} {}", new.sign("01J", 17, b"{}"), old.sign("01J", 17, b"{}")));
    }

    /// K2: what is no secret is refused without being shown.
    #[test]
    fn bad_secret_is_refused_and_not_shown() {
        let long = format!("whsec_{}", STANDARD.encode([7; 65]));
        for (text, error) in [
            ("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", BadSecret::NoPrefix),
            ("whsec_MfKQ9r8GKYqr TwjUPD8ILPZIo2LaLaSw", BadSecret::NotBase64),
            ("whsec_MfKQ9r8GKYqr", BadSecret::WrongLength(9)),
            (&long, BadSecret::WrongLength(65)),
        ] {
            assert_eq!(text.parse::<WebhookSecret>(), Err(error));
            assert!(!error.to_string().contains("MfKQ"));
        }
        let shown = format!("{:?}", SECRET.parse::<WebhookSecret>().unwrap());
        assert_eq!(shown, "WebhookSecret(…)");
    }
}
