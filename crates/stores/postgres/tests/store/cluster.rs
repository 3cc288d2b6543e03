//! Several processes on one outbox.

use std::process::Command;

use pillarbox_postgres::PostgresStore;
use pillarbox_testkit::chaos::{self, Shell};
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

impl Shell for PostgresStage {
    const NOW: &'static str = "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint";
    const UNTIL: &'static str = "(extract(epoch FROM until) * 1000000)::bigint";
    const OWNER: &'static str = "owner_incarnation";
    const WRITES_AT_ONCE: bool = true;
    const SECONDS: u64 = 60;

    async fn ask(&self, sql: String) -> Vec<Vec<String>> {
        let mut psql = Command::new("psql");
        psql.args([
            &self.url,
            "--no-psqlrc",
            "--quiet",
            "--no-align",
            "--tuples-only",
            "--field-separator= ",
        ])
        .args(["--set", "ON_ERROR_STOP=1"])
        .env("PGOPTIONS", format!("-c search_path={}", self.schema));
        chaos::by_client(psql, sql).await
    }
}
