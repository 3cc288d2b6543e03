//! A MariaDB that nobody else uses.

use std::process::Command;

use pillarbox_mysql::MySqlStore;
use pillarbox_testkit::servers::{Fresh, Server, unique_name};
use sqlx::{AssertSqlSafe, Connection, Executor, MySqlConnection};

/// The script that starts servers.
pub(crate) const SERVICES: Server =
    Server { name: "mariadb", variable: "PILLARBOX_TEST_SERVICES", optional: false };

/// What the script calls the variable with the URL.
const URL: &str = "PILLARBOX_TEST_MYSQL_URL";

/// A server that is deleted with its data.
pub(crate) struct PrivateServer {
    script: String,
    name: String,
    pub(crate) url: String,
}

impl PrivateServer {
    /// Runs statements as the administrator.
    pub(crate) async fn run(&self, sql: &str) {
        let mut connection = MySqlConnection::connect(&self.url).await.unwrap();
        connection.execute(AssertSqlSafe(sql.to_owned())).await.unwrap();
        connection.close().await.unwrap();
    }

    /// The URL for a user who has every privilege on its database and none on the server.
    pub(crate) fn app_url(&self) -> String {
        let (scheme, rest) = self.url.split_once("://").unwrap();
        let (_, place) = rest.split_once('@').unwrap();
        format!("{scheme}://app:seventeen@{place}")
    }

    /// A store of that user.
    pub(crate) async fn store(&self) -> MySqlStore {
        let store = MySqlStore::connect(self.app_url()).await.unwrap();
        store.migrate().await.unwrap();
        store
    }

    /// Has the script do something to this server.
    pub(crate) async fn call(&self, verb: &'static str) -> String {
        let (script, name) = (self.script.clone(), self.name.clone());
        let call = move || {
            let done = Command::new(script).arg(verb).arg(name).env_remove(URL).output().unwrap();
            assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
            String::from_utf8(done.stdout).unwrap()
        };
        tokio::task::spawn_blocking(call).await.unwrap()
    }
}

impl Fresh for PrivateServer {
    async fn fresh(script: &str) -> Self {
        let name = format!("mysql@{}", unique_name().replace('_', "-"));
        let mut server = Self { script: script.to_owned(), name, url: String::new() };
        server.call("up").await;
        let printed = server.call("env").await;
        let url = printed.lines().find_map(|line| line.strip_prefix(&format!("export {URL}=")));
        server.url = url.unwrap().trim_matches(['\'', '"']).to_owned();
        let (_, database) = server.url.rsplit_once('/').unwrap();
        let user =
            format!("CREATE USER app@'%' IDENTIFIED BY 'seventeen'; GRANT ALL ON {database}.* TO app@'%'");
        server.run(&user).await;
        server
    }

    async fn clean(self) {
        self.call("down").await;
    }
}
