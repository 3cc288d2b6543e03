//! Where the database of an outbox is.

use pillarbox::StoreSettings;

use crate::database;
use crate::relay::secret::Secret;

/// An option that does not say where the database is, and what to do about it.
#[derive(Debug, thiserror::Error)]
#[error("{text}")]
pub(crate) struct Nowhere {
    /// The option, if there is one.
    pub(crate) option: Option<&'static str>,
    text: String,
}

/// The URL of the database, which may stand in a file of its own; refuses what is none.
pub(crate) fn url(store: &StoreSettings) -> Result<String, Nowhere> {
    let (option, url) = match (&store.url, &store.url_file) {
        (Some(url), _) => ("store.url", Ok(url.clone())),
        (None, Some(file)) => ("store.url_file", Secret::File { file: file.into() }.reveal()),
        (None, None) => {
            let text = "no database is configured; set `store.url`".to_owned();
            return Err(Nowhere { option: None, text });
        }
    };
    let wrong = |error: &dyn std::fmt::Display| Nowhere {
        option: Some(option),
        text: format!("`{option}`: {error}"),
    };
    let url = url.map_err(|error| wrong(&error))?;
    database::url::check(&url).map_err(|error| wrong(&error))?;
    Ok(url)
}
