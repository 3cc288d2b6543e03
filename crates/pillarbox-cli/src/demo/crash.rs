//! The demo in a process of its own, which is killed in the middle and started again.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use anyhow::Context;
use tokio::process::{Child, Command};

use super::progress::Progress;
use super::run::Run;
use crate::database::SqliteFile;
use crate::figure;

/// How often to look whether it is time to kill.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// What the processes of one run have in common.
pub(super) struct Crash {
    pub(super) file: SqliteFile,
    pub(super) run: Run,
    pub(super) journal: PathBuf,
    pub(super) workers: usize,
    pub(super) rate: Option<f64>,
    /// How often to kill.
    pub(super) times: u32,
}

impl Crash {
    /// Plays the run in processes that are killed one after the other; the last one lives.
    pub(super) async fn play(&self, progress: &mut Progress) -> anyhow::Result<()> {
        for incarnation in 1..=self.times {
            let mut child = self.start(incarnation)?;
            let pid = child.id().unwrap_or_default();
            let calls = self.watch(&mut child, incarnation, progress).await?;
            child.start_kill()?;
            let status = child.wait().await?;
            // A process that ended by itself has an exit code; one that was killed has none.
            anyhow::ensure!(status.code().is_none(), TOO_SHORT);
            let calls = figure::count(calls);
            progress.say(&format!(
                "  process {pid} killed after {calls} listener calls; started again under its name"
            ));
        }
        let mut child = self.start(self.times + 1)?;
        self.watch(&mut child, self.times + 1, progress).await?;
        Ok(())
    }

    fn start(&self, incarnation: u32) -> anyhow::Result<Child> {
        let program = std::env::current_exe().context("the demo does not find its own program")?;
        let mut command = Command::new(program);
        command.arg("demo-child").arg("--db").arg(self.file.given());
        command.arg("--run").arg(self.run.number.to_string());
        command.arg("--journal").arg(&self.journal);
        command.arg("--incarnation").arg(incarnation.to_string());
        command.arg("--workers").arg(self.workers.to_string());
        if let Some(rate) = self.rate {
            command.arg("--rate").arg(rate.to_string());
        }
        command.stdin(Stdio::null()).stdout(Stdio::null()).kill_on_drop(true);
        command.spawn().context("the demo cannot start itself")
    }

    /// Returns when it is time to kill, or, in the last incarnation, when the child has ended well.
    async fn watch(
        &self,
        child: &mut Child,
        incarnation: u32,
        progress: &mut Progress,
    ) -> anyhow::Result<u64> {
        let until = kill_after(self.run.events, incarnation, self.times);
        loop {
            let calls = progress.look()?;
            if until.is_some_and(|until| calls >= until) {
                return Ok(calls);
            }
            if let Some(status) = child.try_wait()? {
                anyhow::ensure!(status.success(), "the demo's process failed: {status}");
                anyhow::ensure!(until.is_none(), TOO_SHORT);
                return Ok(calls);
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }
}

const TOO_SHORT: &str = "the demo was over before it could be killed; give it more --events, or a --rate";

/// How many calls of listeners an incarnation may live to see; `None` for the last. A part of the orders is
/// rolled back and calls nobody, so the end is left out.
fn kill_after(events: u64, incarnation: u32, times: u32) -> Option<u64> {
    let part = events * u64::from(incarnation) * 4 / (u64::from(times + 1) * 5);
    (incarnation <= times).then_some(part.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kills_are_spread_over_the_run() {
        let kills: Vec<_> = (1..=4).map(|incarnation| kill_after(2_000, incarnation, 3)).collect();

        assert_eq!(kills, [Some(400), Some(800), Some(1_200), None]);
        assert_eq!(kill_after(1, 1, 1), Some(1));
    }
}
