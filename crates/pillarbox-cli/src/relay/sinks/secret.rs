//! Values that must not be shown, and where they come from.

use std::fmt;
use std::path::PathBuf;

use serde::Deserialize;

/// A secret: from the environment, from a file, or, if it must be, as it is. It is shown to nobody.
#[derive(Clone, Deserialize)]
#[serde(untagged, expecting = "expected `{ env = \"NAME\" }`, `{ file = \"PATH\" }` or a text")]
pub(crate) enum Secret {
    Env { env: String },
    File { file: PathBuf },
    Given(String),
}

/// A secret that is not where it should be.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoSecret {
    #[error("the variable `{0}` is not set")]
    NotSet(String),
    #[error("the variable `{0}` is empty")]
    Empty(String),
    #[error("`{file}` cannot be read: {source}", file = file.display())]
    Unreadable { file: PathBuf, source: std::io::Error },
}

impl Secret {
    /// The secret itself. Of a file the line end behind it does not count.
    pub(crate) fn reveal(&self) -> Result<String, NoSecret> {
        match self {
            Self::Given(text) => Ok(text.clone()),
            Self::Env { env } => match std::env::var(env) {
                Ok(value) if value.is_empty() => Err(NoSecret::Empty(env.clone())),
                Ok(value) => Ok(value),
                Err(_) => Err(NoSecret::NotSet(env.clone())),
            },
            Self::File { file } => match std::fs::read_to_string(file) {
                Ok(text) => Ok(text.trim_end_matches(['\r', '\n']).to_owned()),
                Err(source) => Err(NoSecret::Unreadable { file: file.clone(), source }),
            },
        }
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Env { env } => write!(f, "Secret(env {env})"),
            Self::File { file } => write!(f, "Secret(file {})", file.display()),
            Self::Given(_) => f.write_str("Secret(…)"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Deserialize)]
    struct Login {
        password: Secret,
    }

    /// M4: a secret comes from the environment or a file, and is never shown.
    #[test]
    fn secrets_come_from_elsewhere() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "seventeen\n").unwrap();
        let from_file = format!("password = {{ file = '{}' }}", file.path().display());
        let read = |text: &str| toml::from_str::<Login>(text).unwrap().password;

        assert_eq!(read(&from_file).reveal().unwrap(), "seventeen");
        assert_eq!(read("password = 'seventeen'").reveal().unwrap(), "seventeen");
        assert!(read("password = { env = 'PATH' }").reveal().is_ok());
        let missing = read("password = { env = 'PILLARBOX_NO_SUCH' }").reveal().unwrap_err();
        assert_eq!(missing.to_string(), "the variable `PILLARBOX_NO_SUCH` is not set");
        assert_eq!(format!("{:?}", read("password = 'seventeen'")), "Secret(…)");
    }
}
