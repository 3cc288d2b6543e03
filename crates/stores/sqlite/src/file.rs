//! The file that is open, and whether its path still leads to it.

use std::io;
use std::path::{Path, PathBuf};

use pillarbox::store::StoreError;

/// A database file as it was when it was opened.
///
/// One that another was moved over (by a restore) lives on without a name for those who have it open: all that they
/// write goes with it, and what is at the path they never see.
pub(crate) struct OpenFile {
    path: PathBuf,
    identity: Option<Identity>,
}

/// Device and number of a file.
type Identity = (u64, u64);

impl OpenFile {
    /// The file at `path`, which was opened just now.
    pub(crate) fn at(path: &Path) -> Self {
        // The process may change its directory later.
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let identity = identity(&path).ok();
        Self { path, identity }
    }

    /// Fails if there is another file at the path, or none; one system call.
    pub(crate) fn check(&self) -> Result<(), StoreError> {
        let is_gone = match identity(&self.path) {
            Ok(found) => self.identity.is_some_and(|identity| identity != found),
            Err(error) => self.identity.is_some() && error.kind() == io::ErrorKind::NotFound,
        };
        if !is_gone {
            return Ok(());
        }
        Err(StoreError::Config(format!(
            "`{}` was replaced or deleted while it was open, and what is written here would be lost with the old file; end \
             this process and all others that have the old file open, then start them anew",
            self.path.display()
        )))
    }
}

#[cfg(unix)]
fn identity(path: &Path) -> io::Result<Identity> {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata(path).map(|file| (file.dev(), file.ino()))
}

/// Elsewhere a file that is open can be neither replaced nor deleted.
#[cfg(not(unix))]
fn identity(_: &Path) -> io::Result<Identity> {
    Ok((0, 0))
}
