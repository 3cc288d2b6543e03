//! Several processes on one outbox.

use pillarbox_postgres::PostgresStore;
use pillarbox_testkit::cluster::Cluster;

use crate::stage::PostgresStage;

impl Cluster for PostgresStage {
    fn address(&self) -> String {
        format!("{} {}", self.schema, self.url)
    }

    async fn at(address: &str) -> PostgresStore {
        let (schema, url) = address.split_once(' ').unwrap();
        PostgresStore::options(url).schema(schema).connect().await.unwrap()
    }
}
