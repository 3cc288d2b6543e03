//! Several processes on one outbox.

use pillarbox_mysql::MySqlStore;
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
