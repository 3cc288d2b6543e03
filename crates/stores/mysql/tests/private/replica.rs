//! MySQL's own way to be read-only, which keeps out administrators too.

use pillarbox_mysql::MySqlStore;
use pillarbox_testkit::servers::{Fresh, unique_name};
use sqlx::{AssertSqlSafe, Connection, Executor, MySqlConnection};

use crate::settings::{assert_read_only, write};

/// A database on a server of which no other trial of this program makes use.
pub(crate) struct MySql8 {
    server: String,
    database: String,
}

impl MySql8 {
    async fn run(&self, sql: &str) {
        let mut connection = MySqlConnection::connect(&self.server).await.unwrap();
        connection.execute(AssertSqlSafe(sql.to_owned())).await.unwrap();
        connection.close().await.unwrap();
    }

    fn url(&self) -> String {
        let (server, _) = self.server.rsplit_once('/').unwrap();
        format!("{server}/{}", self.database)
    }
}

impl Fresh for MySql8 {
    async fn fresh(url: &str) -> Self {
        let stage = Self { server: url.to_owned(), database: unique_name() };
        stage.run(&format!("CREATE DATABASE {}", stage.database)).await;
        stage
    }

    async fn clean(self) {
        self.run("SET GLOBAL super_read_only = 0").await;
        self.run("SET GLOBAL read_only = 0").await;
        self.run(&format!("DROP DATABASE {}", self.database)).await;
    }
}

/// S2: a server with `super_read_only` is refused, and one that becomes so is out of order until it is not so any more.
pub(crate) async fn super_read_only_server_is_refused(stage: &MySql8) {
    let store = MySqlStore::connect(stage.url()).await.unwrap();
    store.migrate().await.unwrap();

    stage.run("SET GLOBAL super_read_only = 1").await;
    let refused = MySqlStore::connect(stage.url()).await.unwrap_err();
    let out_of_order = write(&store, 17).await.unwrap_err();
    stage.run("SET GLOBAL super_read_only = 0").await;
    stage.run("SET GLOBAL read_only = 0").await;

    assert_read_only(&refused, &out_of_order);
    write(&store, 17).await.unwrap();
    store.close().await;
}
