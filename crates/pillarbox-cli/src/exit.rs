//! How the program ends: exit codes that scripts can use, and what is said to people.

use std::io::{ErrorKind, Write};
use std::process::ExitCode;

use pillarbox::store::StoreError;
use pillarbox_any::is_missing_database;

/// The exit codes, as `--help` explains them.
pub(crate) const HELP: &str = "\
Exit codes:
  0  done
  1  it failed: a server cannot be reached, or refuses; or it is not complete: some events were busy, or name both
     handlers, or it was interrupted; in the demo also: the ledger does not balance; in the doctor: there is a problem
  2  wrong usage or configuration, or the database is missing, of an unknown kind, without an outbox, or of another version
  3  there is no such event, or it is not dead, or none matches; or a key is not parked; or no event names the handler
";

/// What the user gave cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Unusable(pub(crate) String);

/// What the user named is not there.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct NotFound(pub(crate) String);

/// How a command that ran to its end answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Good,
    Bad,
}

/// Says what went wrong, if anything did, and gives the exit code.
pub(crate) fn code_of(result: anyhow::Result<Verdict>) -> ExitCode {
    let error = match result {
        Ok(Verdict::Good) => return ExitCode::SUCCESS,
        Ok(Verdict::Bad) => return ExitCode::FAILURE,
        Err(error) if is_broken_pipe(&error) => return ExitCode::SUCCESS,
        Err(error) => error,
    };
    // Nobody is left to tell if this fails.
    let _ = writeln!(std::io::stderr(), "error: {}", text(&error));
    ExitCode::from(number(&error))
}

/// The error and its causes. Drivers repeat the cause in their own text; it is said once.
pub(crate) fn text(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain().map(ToString::to_string) {
        match text.as_str() {
            "" => text = cause,
            said if said.ends_with(&cause) => {}
            _ => text.extend([": ", &cause]),
        }
    }
    text
}

/// Whether the reader of our output went away, as `head` does.
pub(crate) fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        let by_io = cause.downcast_ref::<std::io::Error>().map(std::io::Error::kind);
        let by_json = cause.downcast_ref::<serde_json::Error>().and_then(serde_json::Error::io_error_kind);
        by_io.or(by_json) == Some(ErrorKind::BrokenPipe)
    })
}

fn number(error: &anyhow::Error) -> u8 {
    if error.is::<NotFound>() {
        return 3;
    }
    let is_usage = error.is::<Unusable>()
        || error.chain().any(is_missing_database)
        || error.downcast_ref::<StoreError>().is_some_and(|error| {
            matches!(
                error,
                StoreError::Config(_)
                    | StoreError::NotMigrated
                    | StoreError::OlderSchema { .. }
                    | StoreError::NewerSchema { .. }
            )
        });
    if is_usage { 2 } else { 1 }
}
