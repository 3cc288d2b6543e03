//! Servers of the test's own, with settings that the shared one does not have.

use std::path::{Path, PathBuf};
use std::time::Duration;

use pillarbox_testkit::port;
use pillarbox_testkit::servers::Fresh;
use tempfile::TempDir;
use tokio::process::{Child, Command};

/// How long a server may take to start.
const PATIENCE: Duration = Duration::from_secs(30);

/// A directory for servers that are started with the settings that a trial wants.
pub(crate) struct ServerHome {
    directory: TempDir,
}

/// A server that runs, and ends with this.
pub(crate) struct Running {
    pub(crate) port: u16,
    pub(crate) url: String,
    _process: Child,
}

impl ServerHome {
    /// Starts a server on a free port with these settings, separated by semicolons.
    pub(crate) async fn start(&self, settings: &str) -> Running {
        let port = port::free();
        self.start_at(port, &format!("port {port}; {settings}")).await
    }

    /// Starts a server that listens on `port` because the settings say so.
    pub(crate) async fn start_at(&self, port: u16, settings: &str) -> Running {
        let (home, config) = (self.path(&format!("{port}")), self.path(&format!("{port}.conf")));
        std::fs::create_dir(&home).unwrap();
        let lines = settings.replace("; ", "\n");
        std::fs::write(&config, format!("bind 127.0.0.1\ndir \"{}\"\nsave \"\"\n{lines}\n", home.display()))
            .unwrap();
        let log = std::fs::File::create(home.join("log")).unwrap();
        let process = Command::new("redis-server").arg(&config).stdout(log).kill_on_drop(true).spawn();
        let process = process.expect("`redis-server` is installed by `scripts/services up redis`");
        port::reach(port, |waited| {
            assert!(waited < PATIENCE, "{}", std::fs::read_to_string(home.join("log")).unwrap_or_default());
        });
        Running { port, url: format!("redis://127.0.0.1:{port}/0"), _process: process }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
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
        Self { directory: TempDir::new().unwrap() }
    }

    async fn clean(self) {}
}
