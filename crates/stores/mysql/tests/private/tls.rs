//! Servers that want encrypted connections, and servers that cannot have any.

use std::process::Stdio;
use std::time::Duration;

use pillarbox::store::StoreError;
use pillarbox_mysql::MySqlStore;
use pillarbox_testkit::servers::Fresh;
use sqlx::{Connection, MySqlConnection};
use tokio::process::{Child, Command};
use tokio::time::timeout;

use crate::server::MariaDb;

/// How long a server may take to start.
const PATIENCE: Duration = Duration::from_secs(60);

/// Why the user `app`, whose password is `seventeen`, is not let in with this `ssl-mode`.
async fn refusal(server: &MariaDb, ssl_mode: &str) -> String {
    let url = format!("{}?ssl-mode={ssl_mode}", server.app_url());
    let refused = MySqlStore::connect(url).await.unwrap_err();
    assert!(matches!(refused, StoreError::Refused { .. }), "{refused:?}");
    assert!(!format!("{refused} {refused:?}").contains("seventeen"), "{refused:?}");
    refused.to_string()
}

async fn assert_welcome(server: &MariaDb, ssl_mode: &str) {
    let url = format!("{}?ssl-mode={ssl_mode}", server.app_url());
    MySqlStore::connect(url).await.unwrap().close().await;
}

/// S2: a server that takes encrypted connections only says so, and what to set in the URL.
pub(crate) async fn server_that_wants_tls_is_named(server: &MariaDb) {
    server.run("SET GLOBAL require_secure_transport = ON").await;

    let refused = refusal(server, "DISABLED").await;

    assert!(refused.contains("set `ssl-mode=REQUIRED` instead of `DISABLED`"), "{refused}");
    assert_welcome(server, "REQUIRED").await;
}

/// S2: a certificate that nobody vouches for is refused where the URL asks for that, and only there.
pub(crate) async fn certificate_of_nobody_is_named(server: &MariaDb) {
    for ssl_mode in ["VERIFY_CA", "VERIFY_IDENTITY"] {
        let refused = refusal(server, ssl_mode).await;
        assert!(
            refused.contains("the certificate of") && refused.contains("set `ssl-ca` in the URL"),
            "{refused}"
        );
    }
    assert_welcome(server, "REQUIRED").await;
}

/// A server that cannot encrypt.
pub(crate) struct ServerWithoutTls {
    server: MariaDb,
    process: Child,
}

impl Fresh for ServerWithoutTls {
    /// Starts a private server anew, which has a certificate, without the use of it.
    async fn fresh(url: &str) -> Self {
        let server = MariaDb::fresh(url).await;
        let mut connection = MySqlConnection::connect(server.url()).await.unwrap();
        let data: String = sqlx::query_scalar("SELECT @@datadir").fetch_one(&mut connection).await.unwrap();
        server.server.kill().await;
        let process = mariadbd(&data).spawn().unwrap();
        let started = async { while MySqlConnection::connect(server.url()).await.is_err() {} };
        timeout(PATIENCE, started).await.expect("it starts");
        Self { server, process }
    }

    async fn clean(mut self) {
        self.process.kill().await.unwrap();
        self.server.clean().await;
    }
}

/// The server on data that the script has made, as the user to whom the data belongs. On Debian it is in no user's path
/// but root's.
fn mariadbd(data: &str) -> Command {
    let owner = std::os::unix::fs::MetadataExt::uid(&std::fs::metadata(data).unwrap());
    let path = std::env::var("PATH").unwrap_or_default();
    let mut command = Command::new("mariadbd");
    command.arg(format!("--defaults-file={data}/../my.cnf")).arg(format!("--user={owner}")).arg("--skip-ssl");
    command
        .env("PATH", format!("{path}:/usr/sbin"))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true);
    command
}

/// S2: where the URL asks for an encrypted connection and the server has none, that is said, and what to change.
pub(crate) async fn server_without_tls_is_named(stage: &ServerWithoutTls) {
    let refused = refusal(&stage.server, "REQUIRED").await;

    assert!(refused.contains("switch TLS on there, or change `ssl-mode` in the URL"), "{refused}");
    assert_welcome(&stage.server, "PREFERRED").await;
}
