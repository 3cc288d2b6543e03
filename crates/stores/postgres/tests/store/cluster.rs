//! Several processes on one outbox.

use std::process::Command;

use pillarbox_postgres::PostgresStore;
use pillarbox_testkit::chaos::Shell;
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

    fn client(&self) -> Command {
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
        psql
    }
}
