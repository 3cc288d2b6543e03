//! Names and values that travel with an event.

use std::collections::BTreeMap;

use serde_json::Value;

/// Names and values that travel with an event, sorted by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Headers(BTreeMap<String, String>);

/// Stored headers that cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum HeadersError {
    /// The text is not JSON.
    #[error("not JSON")]
    NotJson(#[source] serde_json::Error),
    /// The text is JSON, but not an object whose values are strings.
    #[error("not a JSON object whose values are strings")]
    NotStrings,
}

impl Headers {
    /// No headers.
    pub fn new() -> Self {
        Self::default()
    }

    /// The value of `name`.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// Sets `name` to `value`; the last one wins.
    pub fn insert(&mut self, name: impl Into<String>, value: impl Into<String>) {
        self.0.insert(name.into(), value.into());
    }

    /// Names and values in the order of the names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The form in which stores keep them: a JSON object, or `None` when there are none.
    pub fn to_json(&self) -> Option<String> {
        let object = self.0.iter().map(|(name, value)| (name.clone(), Value::from(value.as_str())));
        (!self.is_empty()).then(|| Value::Object(object.collect()).to_string())
    }

    /// Reads the stored form; `None` and an empty object are no headers.
    pub fn from_json(json: Option<&str>) -> Result<Self, HeadersError> {
        let Some(json) = json else { return Ok(Self::new()) };
        let Value::Object(object) = serde_json::from_str(json).map_err(HeadersError::NotJson)? else {
            return Err(HeadersError::NotStrings);
        };
        let strings = object.into_iter().map(|(name, value)| match value {
            Value::String(value) => Ok((name, value)),
            _ => Err(HeadersError::NotStrings),
        });
        strings.collect::<Result<_, _>>().map(Self)
    }
}

impl<N: Into<String>, V: Into<String>> FromIterator<(N, V)> for Headers {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(pairs: I) -> Self {
        Self(pairs.into_iter().map(|(name, value)| (name.into(), value.into())).collect())
    }
}
