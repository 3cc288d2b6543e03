//! Several processes on one outbox.

use std::process::Command;

use pillarbox_mysql::MySqlStore;
use pillarbox_testkit::chaos::Shell;
use pillarbox_testkit::cluster::Cluster;

use crate::stage::MySqlStage;

impl Cluster for MySqlStage {
    fn address(&self) -> String {
        self.url()
    }

    async fn at(address: &str) -> MySqlStore {
        MySqlStore::connect(address).await.unwrap()
    }
}

impl Shell for MySqlStage {
    const NOW: &'static str = "TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '2000-01-01 00:00:00', UTC_TIMESTAMP(6))";
    const UNTIL: &'static str = "TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '2000-01-01 00:00:00', until)";

    fn client(&self) -> Command {
        let mut mariadb = self.mariadb();
        mariadb.args(["--skip-column-names", "--batch"]);
        mariadb
    }
}
