//! Where the tables are, for adapters to drivers that are not ours.

use pillarbox::WriteError;
use pillarbox_sql::Names;
use pillarbox_sql::canonical::Tables;

use crate::SqliteStore;

impl Tables for SqliteStore {
    fn names(&self) -> &Names {
        &self.inner.names
    }

    fn stores(&self) -> Result<bool, WriteError> {
        Ok(true)
    }
}
