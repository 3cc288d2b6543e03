//! Values that must not be shown, and where they come from.

use std::fmt;
use std::path::PathBuf;

use serde::Deserialize;

/// A secret: from the environment, from a file, or, if it must be, as it is. It is shown to nobody.
#[derive(Clone, Deserialize)]
#[serde(
    untagged,
    deny_unknown_fields,
    expecting = "expected `{ env = \"NAME\" }`, `{ file = \"PATH\" }` or a text"
)]
pub(crate) enum Secret {
    /// From two places; which of them is meant is not known.
    Both {
        env: String,
        file: PathBuf,
    },
    Env {
        env: String,
    },
    File {
        file: PathBuf,
    },
    Given(String),
}

/// A secret that is not where it should be.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoSecret {
    #[error("both `env` and `file` say where it is; give one of them")]
    TwoPlaces,
    #[error("the variable `{0}` is not set")]
    NotSet(String),
    #[error("the variable `{0}` is empty")]
    Empty(String),
    #[error("`{}` is empty; write the value into it", .0.display())]
    EmptyFile(PathBuf),
    #[error("`{file}` cannot be read: {source}; correct the path, or let the relay read it", file = file.display())]
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
            Self::Both { .. } => Err(NoSecret::TwoPlaces),
            Self::File { file } => {
                let unreadable = |source| NoSecret::Unreadable { file: file.clone(), source };
                let text = std::fs::read_to_string(file).map_err(unreadable)?;
                match text.trim_end_matches(['\r', '\n']) {
                    "" => Err(NoSecret::EmptyFile(file.clone())),
                    secret => Ok(secret.to_owned()),
                }
            }
        }
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Env { env } => write!(f, "Secret(env {env})"),
            Self::File { file } => write!(f, "Secret(file {})", file.display()),
            Self::Both { env, file } => write!(f, "Secret(env {env}, file {})", file.display()),
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

    /// M4: an empty file is no secret, and of two places none is chosen.
    #[test]
    fn secrets_that_are_none_are_refused() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "\n").unwrap();
        let path = file.path().display();
        let refused = |value: String| {
            let login: Login = toml::from_str(&format!("password = {value}")).unwrap();
            login.password.reveal().unwrap_err().to_string()
        };

        let empty = refused(format!("{{ file = '{path}' }}"));
        assert_eq!(empty, format!("`{path}` is empty; write the value into it"));
        let both = refused(format!("{{ env = 'PATH', file = '{path}' }}"));
        assert_eq!(both, "both `env` and `file` say where it is; give one of them");
        assert!(toml::from_str::<Login>("password = { env = 'PATH', fiel = '/run/secret' }").is_err());
    }
}
