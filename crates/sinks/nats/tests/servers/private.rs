//! A server of the test's own, with settings that the shared one does not have.

use std::path::{Path, PathBuf};
use std::time::Duration;

use pillarbox_nats::NatsOptions;
use pillarbox_testkit::port;
use pillarbox_testkit::servers::Fresh;
use tempfile::TempDir;
use tokio::process::{Child, Command};

use crate::stage::messages;

/// How long a server may take to start.
const PATIENCE: Duration = Duration::from_secs(30);

/// A directory for a server that is started with the settings that a trial wants.
pub(crate) struct ServerHome {
    directory: TempDir,
    pub(crate) port: u16,
}

impl ServerHome {
    /// Starts the server with JetStream and these settings. It ends with what is returned.
    pub(crate) async fn start(&self, settings: &str) -> Child {
        let store = format!("jetstream {{ store_dir: \"{}\" }}\n", self.path("data").display());
        self.start_bare(&(store + settings)).await
    }

    /// Starts the server with these settings only.
    pub(crate) async fn start_bare(&self, settings: &str) -> Child {
        let config = format!("listen: \"127.0.0.1:{}\"\n{settings}", self.port);
        std::fs::write(self.path("nats.conf"), config).unwrap();
        let server = Command::new("nats-server")
            .arg("-c")
            .arg(self.path("nats.conf"))
            .args(["-l".as_ref(), self.path("log").as_os_str()])
            .kill_on_drop(true)
            .spawn();
        let server = server.expect("`nats-server` is installed by `scripts/services up nats`");
        port::reach(self.port, |waited| {
            assert!(waited < PATIENCE, "{}", std::fs::read_to_string(self.path("log")).unwrap_or_default());
        });
        server
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Options for a sink to `subject`, by a scheme.
    pub(crate) fn options(&self, scheme: &str, subject: &str) -> NatsOptions {
        let url = format!("{scheme}://127.0.0.1:{}", self.port);
        NatsOptions::new(&url, subject.parse().unwrap(), messages()).unwrap()
    }

    /// A certificate for 127.0.0.1, signed by itself, and its key. It is no authority's: rustls would not take it from a
    /// server then.
    pub(crate) async fn certificate(&self) -> (PathBuf, PathBuf) {
        let (certificate, key) = (self.path("cert.pem"), self.path("key.pem"));
        let arguments = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost \
                         -addext subjectAltName=IP:127.0.0.1 -addext basicConstraints=critical,CA:FALSE";
        let made = Command::new("openssl")
            .args(arguments.split_whitespace())
            .args([Path::new("-keyout"), &key, Path::new("-out"), &certificate])
            .output()
            .await
            .unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        (certificate, key)
    }
}

impl Fresh for ServerHome {
    async fn fresh(_: &str) -> Self {
        Self { directory: TempDir::new().unwrap(), port: port::free() }
    }

    async fn clean(self) {}
}
