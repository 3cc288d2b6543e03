//! A relay's file with an outbox that is in order, and a sink that is examined.

use std::path::PathBuf;
use std::process::{Child, Command};
use std::time::Duration;

use pillarbox_testkit::port;
use pillarbox_testkit::servers::Fresh;
use serde_json::Value;
use tempfile::TempDir;

use crate::program::{Answer, pillarbox, run};

/// Long enough for anything, even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A directory with a file and a database in it, and the URL of the server that the trial is about.
pub(crate) struct Relay {
    directory: TempDir,
    pub(crate) url: String,
}

impl Fresh for Relay {
    async fn fresh(url: &str) -> Self {
        let relay = Self { directory: TempDir::new().unwrap(), url: url.to_owned() };
        let migrated = run(&["migrate", "--db", relay.path("shop.db").to_str().unwrap()]);
        assert_eq!(migrated.code, Some(0), "{}", migrated.err);
        relay
    }

    async fn clean(self) {}
}

impl Relay {
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Examines a relay with these tables of sinks, of which `mode` says how events become messages. Returns the exit code
    /// and the checks of the first sink.
    pub(crate) fn examine(&self, mode: &str, sinks: &str) -> (Option<i32>, Value) {
        let first = sinks.split_once("[sinks.").unwrap().1.split_once(']').unwrap().0;
        let text = format!(
            "[outbox]\nkeep_done_for = \"30d\"\n[outbox.store]\nurl = '{}'\n[messages]\nsource = \"/shop\"\n\
             mode = \"{mode}\"\n{sinks}\n[[routes]]\nname = \"all\"\nto = \"{first}\"\n",
            self.path("shop.db").display()
        );
        let file = self.path("pillarbox.toml");
        std::fs::write(&file, text).unwrap();
        let output = pillarbox().args(["doctor", "--json", "--config"]).arg(&file).output().unwrap();
        let answer = Answer::of(output);
        assert_ne!(answer.code, Some(2), "{}", answer.err);
        let report = match answer.code {
            Some(0) => answer.json(),
            _ => serde_json::from_str(&answer.out).unwrap(),
        };
        (answer.code, report)
    }
}

/// The checks of the sinks in a report, as `health text`.
pub(crate) fn told(report: &Value) -> Vec<String> {
    let subjects = report["subjects"].as_array().unwrap().iter();
    let sinks = subjects.filter(|subject| subject["kind"] == "sink");
    let checks = sinks.flat_map(|sink| sink["checks"].as_array().unwrap());
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    checks.map(|check| format!("{} {}", text(&check["health"]), text(&check["found"]))).collect()
}

#[track_caller]
pub(crate) fn assert_told(report: &Value, health: &str, part: &str) {
    let told = told(report);
    assert!(
        told.iter().any(|line| line.starts_with(health) && line.contains(part)),
        "{health} {part}: {told:#?}"
    );
}

/// A server of the trial's own, which ends with it.
pub(crate) struct Running {
    pub(crate) port: u16,
    process: Child,
}

impl Running {
    /// Starts a program with a file of settings, in which `{port}` stands for a free port and `{home}` for a directory.
    pub(crate) fn start(relay: &Relay, program: &str, flags: &[&str], settings: &str) -> Self {
        let port = port::free();
        let home = relay.path(&format!("{program}-{port}"));
        std::fs::create_dir(&home).unwrap();
        let settings = settings.replace("{port}", &port.to_string());
        let config = home.join("config");
        std::fs::write(&config, settings.replace("{home}", home.to_str().unwrap())).unwrap();
        let log = std::fs::File::create(home.join("log")).unwrap();
        let mut command = Command::new(program);
        command.args(flags).arg(&config).stdout(log.try_clone().unwrap()).stderr(log);
        let process = command.spawn().expect("it is installed by `scripts/services up`");
        let running = Self { port, process };
        port::reach(port, |waited| {
            let log = std::fs::read_to_string(home.join("log"));
            assert!(waited < PATIENCE, "{}", log.unwrap_or_default());
        });
        running
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
