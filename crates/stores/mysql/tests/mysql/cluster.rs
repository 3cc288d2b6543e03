//! Several processes on one outbox.

use pillarbox_mysql::MySqlStore;
use pillarbox_testkit::chaos::{self, Shell};
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
    const OWNER: &'static str = "incarnation";
    const WRITES_AT_ONCE: bool = true;
    const SECONDS: u64 = 60;

    async fn ask(&self, sql: String) -> Vec<Vec<String>> {
        let mut mariadb = self.mariadb();
        mariadb.args(["--skip-column-names", "--batch"]);
        chaos::by_client(mariadb, sql).await
    }
}
