//! This program as another process, for what has to be measured between processes.

use std::io::Write;
use std::pin::pin;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use clap::ValueEnum;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use crate::cases::{claimers, memory, owned_instances, wake_up};
use crate::database::{Address, Database};
use crate::owned::Owned;

/// How the other process learns where the outbox is; an argument would show a password to everyone.
const ADDRESS: &str = "PILLARBOX_BENCH_ADDRESS";
/// How often a number that changes is printed: often enough for a rate, too seldom to slow anybody down.
const SAY_EVERY: Duration = Duration::from_millis(10);

/// What another process does.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Role {
    /// Holds all events that it can, behind a blocked listener, and prints its resident set.
    Hold,
    /// The same by hand.
    HoldByHand,
    /// Takes and settles, and prints how many events are done.
    Claim,
    /// The same by hand.
    ClaimByHand,
    /// Owns its share of the partitions, and prints how many events are done.
    Own,
    /// Waits to be woken, and prints when its listener was called.
    Relay,
}

impl Role {
    /// Does what the role says, in the process that was started for it.
    pub(crate) async fn play<D: Owned>(self) -> Result<()> {
        let address = Address::new(std::env::var(ADDRESS).context("this command is for the program itself")?);
        match self {
            Self::Hold => memory::hold::<D>(&address).await,
            Self::HoldByHand => memory::hold_by_hand::<D>(&address).await,
            Self::Claim => claimers::claim::<D>(&address).await,
            Self::ClaimByHand => claimers::claim_by_hand::<D>(&address).await,
            Self::Own => owned_instances::own::<D>(&address).await,
            Self::Relay => wake_up::relay::<D>(&address).await,
        }
    }
}

/// A process that plays a role; dropped, it is killed.
pub(crate) struct Process {
    child: Child,
    stdin: ChildStdin,
    stdout: Lines<BufReader<ChildStdout>>,
}

impl Process {
    pub(crate) fn start<D: Database>(role: Role, address: &Address) -> Result<Self> {
        let program = std::env::current_exe().context("this program cannot be found to run it again")?;
        let name = role.to_possible_value().context("a role has a name")?;
        let mut child = Command::new(program)
            .args(["process", D::NAME, name.get_name()])
            .env(ADDRESS, address.as_str())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .context("another process could not be started")?;
        let stdin = child.stdin.take().context("the other process has no input")?;
        let stdout = child.stdout.take().context("the other process has no output")?;
        Ok(Self { child, stdin, stdout: BufReader::new(stdout).lines() })
    }

    /// Lets it go on from [`ready`].
    pub(crate) async fn go(&mut self) -> Result<()> {
        self.stdin.write_all(b"\n").await.context("the other process is gone")
    }

    /// The next number that it prints; may be dropped before there is one.
    pub(crate) async fn number(&mut self) -> Result<u64> {
        let Some(line) = self.stdout.next_line().await? else {
            bail!("the other process ended too early: {}", self.child.wait().await?);
        };
        line.parse().with_context(|| format!("the other process printed `{line}`"))
    }

    /// Lets it end, and returns the last number that it prints, if it prints any more.
    pub(crate) async fn end(mut self) -> Result<Option<u64>> {
        drop(self.stdin);
        let mut last = None;
        while let Some(line) = self.stdout.next_line().await? {
            last = Some(line.parse()?);
        }
        let status = self.child.wait().await?;
        ensure!(status.success(), "the other process failed: {status}");
        Ok(last)
    }
}

/// In the other process: prints a number.
pub(crate) fn say(number: u64) -> Result<()> {
    Ok(writeln!(std::io::stdout(), "{number}")?)
}

/// In the other process: says that it is ready, and waits for [`Process::go`].
pub(crate) async fn ready() -> Result<()> {
    say(0)?;
    tokio::io::stdin().read_u8().await.context("the first process is gone")?;
    Ok(())
}

/// In the other process: waits for [`Process::end`].
pub(crate) async fn ended() -> Result<()> {
    tokio::io::stdin().read_to_end(&mut Vec::new()).await?;
    Ok(())
}

/// In the other process: prints `number` whenever it has changed, until [`Process::end`]; then does what is left to
/// do, and prints it once more.
pub(crate) async fn say_changes(number: impl Fn() -> u64, rest: impl Future<Output = ()>) -> Result<()> {
    let mut ended = pin!(ended());
    let mut ticks = tokio::time::interval(SAY_EVERY);
    let mut said = 0;
    loop {
        tokio::select! {
            ended = &mut ended => {
                ended?;
                rest.await;
                return say(number());
            }
            _ = ticks.tick() => {
                let now = number();
                if now != said {
                    said = now;
                    say(now)?;
                }
            }
        }
    }
}
