//! A MariaDB that nobody else uses.

use pillarbox_mysql::MySqlStore;
use pillarbox_testkit::servers::{Fresh, PrivateServer};
use sqlx::{AssertSqlSafe, Connection, Executor, MySqlConnection};

/// A server, and a user of its database.
pub(crate) struct MariaDb {
    pub(crate) server: PrivateServer,
}

impl MariaDb {
    /// The administrator's URL.
    pub(crate) fn url(&self) -> &str {
        self.server.url()
    }

    /// Runs statements as the administrator.
    pub(crate) async fn run(&self, sql: &str) {
        let mut connection = MySqlConnection::connect(self.url()).await.unwrap();
        connection.execute(AssertSqlSafe(sql.to_owned())).await.unwrap();
        connection.close().await.unwrap();
    }

    /// The URL for a user who has every privilege on its database and none on the server.
    pub(crate) fn app_url(&self) -> String {
        let (scheme, rest) = self.url().split_once("://").unwrap();
        let (_, place) = rest.split_once('@').unwrap();
        format!("{scheme}://app:seventeen@{place}")
    }

    /// A store of that user.
    pub(crate) async fn store(&self) -> MySqlStore {
        let store = MySqlStore::connect(self.app_url()).await.unwrap();
        store.migrate().await.unwrap();
        store
    }
}

impl Fresh for MariaDb {
    async fn fresh(url: &str) -> Self {
        let mariadb = Self { server: PrivateServer::fresh(url).await };
        let (_, database) = mariadb.url().rsplit_once('/').unwrap();
        let user =
            format!("CREATE USER app@'%' IDENTIFIED BY 'seventeen'; GRANT ALL ON {database}.* TO app@'%'");
        mariadb.run(&user).await;
        mariadb
    }

    async fn clean(self) {}
}
