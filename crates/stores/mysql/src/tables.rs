//! Where the tables are, for adapters to drivers that are not ours.

use pillarbox::WriteError;
use pillarbox_sql::Names;
use pillarbox_sql::canonical::Tables;

use crate::MySqlStore;

impl Tables for MySqlStore {
    fn names(&self) -> &Names {
        Self::names(self)
    }

    fn stores(&self) -> Result<bool, WriteError> {
        Ok(true)
    }
}
