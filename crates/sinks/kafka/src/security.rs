//! How a client shows who it is, and keeps others from listening.

use std::fmt;
use std::path::{Path, PathBuf};

use rdkafka::ClientConfig;

use crate::KafkaOptionsError;

/// A name and a password, by SASL.
#[derive(Clone)]
pub struct Sasl {
    mechanism: Mechanism,
    user: String,
    password: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mechanism {
    Plain,
    ScramSha256,
    ScramSha512,
}

impl Mechanism {
    fn name(self) -> &'static str {
        match self {
            Self::Plain => "PLAIN",
            Self::ScramSha256 => "SCRAM-SHA-256",
            Self::ScramSha512 => "SCRAM-SHA-512",
        }
    }
}

impl Sasl {
    /// The password as it is: only together with [TLS](Tls) is it hidden from the network.
    pub fn plain(user: impl Into<String>, password: impl Into<String>) -> Self {
        Self { mechanism: Mechanism::Plain, user: user.into(), password: password.into() }
    }

    /// SCRAM with SHA-256. Needs the feature `tls` of this crate, even without TLS.
    pub fn scram_sha_256(user: impl Into<String>, password: impl Into<String>) -> Self {
        Self { mechanism: Mechanism::ScramSha256, user: user.into(), password: password.into() }
    }

    /// SCRAM with SHA-512. Needs the feature `tls` of this crate, even without TLS.
    pub fn scram_sha_512(user: impl Into<String>, password: impl Into<String>) -> Self {
        Self { mechanism: Mechanism::ScramSha512, user: user.into(), password: password.into() }
    }
}

impl fmt::Debug for Sasl {
    /// Everything but the password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { mechanism, user, password: _ } = self;
        f.debug_struct("Sasl").field("mechanism", mechanism).field("user", user).finish_non_exhaustive()
    }
}

/// TLS. Needs the feature `tls` of this crate.
///
/// By default the certificates of the system say whom to trust, and the name in the broker's certificate is checked.
#[derive(Clone, Debug, Default)]
pub struct Tls {
    authority: Option<PathBuf>,
    identity: Option<(PathBuf, PathBuf)>,
}

impl Tls {
    /// TLS with the certificates of the system.
    pub fn new() -> Self {
        Self::default()
    }

    /// Trusts the certificates in this file, in PEM, and no others.
    #[must_use]
    pub fn authority(mut self, file: impl Into<PathBuf>) -> Self {
        self.authority = Some(file.into());
        self
    }

    /// Shows this certificate to the broker, and signs with this key; both in PEM.
    #[must_use]
    pub fn identity(mut self, certificate: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Self {
        self.identity = Some((certificate.into(), key.into()));
        self
    }
}

/// Whether this build has what TLS and SCRAM need.
const HAS_TLS: bool = cfg!(feature = "tls");

/// Sets what both ask for.
pub(crate) fn apply(
    tls: Option<&Tls>,
    sasl: Option<&Sasl>,
    config: &mut ClientConfig,
) -> Result<(), KafkaOptionsError> {
    if tls.is_some() && !HAS_TLS {
        return Err(KafkaOptionsError::NeedsTls { what: "TLS".to_owned() });
    }
    if let Some(sasl) = sasl.filter(|sasl| sasl.mechanism != Mechanism::Plain && !HAS_TLS) {
        return Err(KafkaOptionsError::NeedsTls { what: sasl.mechanism.name().to_owned() });
    }
    let protocol = match (tls, sasl) {
        (None, None) => "plaintext",
        (Some(_), None) => "ssl",
        (None, Some(_)) => "sasl_plaintext",
        (Some(_), Some(_)) => "sasl_ssl",
    };
    config.set("security.protocol", protocol);
    if let Some(sasl) = sasl {
        config.set("sasl.mechanisms", sasl.mechanism.name());
        config.set("sasl.username", &sasl.user).set("sasl.password", &sasl.password);
    }
    if let Some(tls) = tls {
        // The OpenSSL that is built along does not know where this system keeps its certificates.
        config.set("ssl.ca.location", tls.authority.as_deref().map_or("probe".into(), Path::to_string_lossy));
        if let Some((certificate, key)) = &tls.identity {
            config.set("ssl.certificate.location", certificate.to_string_lossy());
            config.set("ssl.key.location", key.to_string_lossy());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Passwords never appear in what is logged.
    #[test]
    fn password_is_not_shown() {
        let shown = format!("{:?}", Sasl::scram_sha_512("shop", "hunter2"));

        assert_eq!(shown, r#"Sasl { mechanism: ScramSha512, user: "shop", .. }"#);
    }
}
