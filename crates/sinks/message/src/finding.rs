//! What a sink finds out about its server before it is used.

use std::fmt;

/// Something about a server that its user should know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// What was found and what to do about it.
    pub text: String,
}

/// How bad a [`Finding`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// It could not be looked at; the text tells which right is missing.
    Unknown,
    /// Events are published, with the limits that the text tells.
    Warning,
    /// The server cannot be used now: events wait until that is mended.
    Unreachable,
    /// What the sink promises cannot be kept: it must not be used so.
    Refusal,
}

impl Finding {
    /// Something that could not be looked at; the sink can be used.
    pub fn unknown(text: impl Into<String>) -> Self {
        Self { severity: Severity::Unknown, text: text.into() }
    }

    /// A server that cannot be used now, and maybe later.
    pub fn unreachable(text: impl Into<String>) -> Self {
        Self { severity: Severity::Unreachable, text: text.into() }
    }

    /// A finding with which the sink can be used.
    pub fn warning(text: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, text: text.into() }
    }

    /// A finding with which the sink must not be used.
    pub fn refusal(text: impl Into<String>) -> Self {
        Self { severity: Severity::Refusal, text: text.into() }
    }

    /// Whether the sink must not be used.
    pub fn is_refusal(&self) -> bool {
        self.severity == Severity::Refusal
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
