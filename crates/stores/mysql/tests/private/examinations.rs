//! Settings of a server that weaken the promise are told by an examination.

use pillarbox::store::{Check, Health, Mode};
use pillarbox_mysql::MySqlStore;

use crate::server::MariaDb;

async fn check(server: &MariaDb, name: &str) -> Check {
    let checks = MySqlStore::options(server.app_url()).examine().await.unwrap().checks;
    let found = checks.iter().find(|check| check.name == name);
    found.unwrap_or_else(|| panic!("{name}: {checks:#?}")).clone()
}

/// Guarantee 1: what makes a commit less than durable, or refuses large events, is told with its value; clocks too.
pub(crate) async fn settings_that_weaken_the_promise_are_told(server: &MariaDb) {
    let store = server.store().await;
    store.migrate_to(Mode::Ownership).await.unwrap();
    store.close().await;
    for (set, back, name, health, text) in [
        (
            "SET GLOBAL innodb_flush_log_at_trx_commit = 2",
            "SET GLOBAL innodb_flush_log_at_trx_commit = 1",
            "durability",
            Health::Warning,
            "`innodb_flush_log_at_trx_commit` is 2",
        ),
        (
            "SET GLOBAL sync_binlog = 0",
            "SET GLOBAL sync_binlog = 1",
            "durability",
            Health::Warning,
            "`sync_binlog` is 0",
        ),
        (
            "SET GLOBAL max_allowed_packet = 1048576",
            "SET GLOBAL max_allowed_packet = 16777216",
            "packet",
            Health::Warning,
            "`max_allowed_packet` is 1.0 MiB",
        ),
        (
            "SET GLOBAL auto_increment_increment = 2",
            "SET GLOBAL auto_increment_increment = 1",
            "numbers",
            Health::Problem,
            "`auto_increment_increment` is 2",
        ),
        (
            "SET GLOBAL init_connect = 'SET timestamp = 1700000000'",
            "SET GLOBAL init_connect = ''",
            "clock",
            Health::Warning,
            "behind this machine's",
        ),
    ] {
        assert_eq!(check(server, name).await.health, Health::Ok, "{set}");

        server.run(set).await;
        let told = check(server, name).await;
        server.run(back).await;

        assert_eq!(told.health, health, "{told}");
        assert!(told.found.contains(text), "{told}");
    }
}
