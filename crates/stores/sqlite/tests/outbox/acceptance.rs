//! The acceptance tests, on SQLite files.

use crate::stage::SqliteStage;

pillarbox_testkit::acceptance!(SqliteStage::fresh().await);
