//! One process of a cluster, from inside and from outside.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, ExitCode, Stdio};
use std::time::Duration;

use pillarbox::{Delivery, ListenerError, Outbox};
use rustix::process::{Pid, Signal, kill_process};
use tokio::sync::{mpsc, watch};

use super::Cluster;

/// Set in a member: where the outbox is.
const ADDRESS: &str = "PILLARBOX_TEST_CLUSTER";
/// Set in a member: milliseconds of delivery timeout and margin.
const SETTING: &str = "PILLARBOX_TEST_CLUSTER_SETTING";
/// Set in a member that bears a name: the name.
const NAME: &str = "PILLARBOX_TEST_CLUSTER_NAME";
/// Events of this type wait until the member is told to answer.
pub(super) const HANGS: &str = "OrderHeld";
/// Said by a member that stops because of another of its name.
const SUPERSEDED: &str = "superseded";
/// How long a member waits for a hint before it looks by itself.
const POLL_EVERY: Duration = Duration::from_secs(1);
/// A member that says nothing for so long has failed.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);

/// How long a member may take over a delivery.
#[derive(Clone, Copy, Debug)]
pub(super) struct Setting {
    pub(super) delivery_timeout: Duration,
    pub(super) margin: Duration,
}

impl Setting {
    fn to_text(self) -> String {
        format!("{} {}", self.delivery_timeout.as_millis(), self.margin.as_millis())
    }

    fn from_text(text: &str) -> Self {
        let mut millis = text.split(' ').map(|number| Duration::from_millis(number.parse().unwrap()));
        Self { delivery_timeout: millis.next().unwrap(), margin: millis.next().unwrap() }
    }
}

/// Runs this process as a member of a cluster, if it was started as one.
pub fn member<C: Cluster>() -> Option<ExitCode> {
    let address = std::env::var(ADDRESS).ok()?;
    let setting = Setting::from_text(&std::env::var(SETTING).ok()?);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(serve::<C>(&address, setting));
    // A thread may still wait for a line that never comes.
    runtime.shutdown_background();
    Some(ExitCode::SUCCESS)
}

async fn serve<C: Cluster>(address: &str, Setting { delivery_timeout, margin }: Setting) {
    let store = C::at(address).await;
    let (answer, answered) = watch::channel(false);
    let held = move |delivery: Delivery| {
        let mut answered = answered.clone();
        async move {
            say(&format!("delivered {}", delivery.id()));
            let answered = answered.wait_for(|answered| *answered).await;
            answered.map(drop).map_err(|_| ListenerError::new("nobody answers"))
        }
    };
    let builder = match std::env::var(NAME) {
        Ok(name) => Outbox::builder(store).name(name),
        Err(_) => Outbox::builder(store),
    };
    let outbox = builder
        .on("OrderPlaced", async |delivery: Delivery| -> Result<(), ListenerError> {
            say(&format!("delivered {}", delivery.id()));
            Ok(())
        })
        .on(HANGS, held)
        .delivery_timeout(delivery_timeout)
        .margin(margin)
        .lease_for(delivery_timeout + 2 * margin)
        .poll_every(POLL_EVERY)
        .poller_only()
        .start()
        .unwrap();
    // A member that is stopped in the middle of it finds its connection gone afterwards; it polls again by itself.
    let _ = outbox.poll().await;
    say("ready");

    let mut orders = orders();
    let mut lost = 0;
    loop {
        let order = tokio::select! {
            biased;
            _ = outbox.stopped() => {
                say(SUPERSEDED);
                break;
            }
            order = tokio::time::timeout(Duration::from_millis(20), orders.recv()) => order,
        };
        match order {
            Ok(Some(order)) if order == "answer" => answer.send_replace(true),
            Ok(_) => break,
            Err(_) => false,
        };
        let counted = outbox.counts().lost_leases;
        if counted > lost {
            lost = counted;
            say(&format!("lost {lost}"));
        }
    }
    outbox.close().await;
}

/// The lines of standard input.
pub(crate) fn orders() -> mpsc::UnboundedReceiver<String> {
    let (sender, orders) = mpsc::unbounded_channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    orders
}

/// Tells the test, in one line.
pub(crate) fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    // The test may be over.
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

/// A member, as the test sees it. It is killed when dropped.
pub(crate) struct Member {
    process: Child,
    orders: Option<ChildStdin>,
    lines: mpsc::UnboundedReceiver<String>,
}

impl Member {
    /// This test binary once more, as a member.
    pub(super) fn start<C: Cluster>(stage: &C, setting: Setting) -> Self {
        Self::launch(&mut Self::program(stage, setting))
    }

    /// A member that bears a name.
    pub(super) fn start_as<C: Cluster>(name: &str, stage: &C, setting: Setting) -> Self {
        Self::launch(Self::program(stage, setting).env(NAME, name))
    }

    fn program<C: Cluster>(stage: &C, setting: Setting) -> Command {
        let mut program = Command::new(std::env::current_exe().unwrap());
        program.env(ADDRESS, stage.address()).env(SETTING, setting.to_text());
        program
    }

    pub(crate) fn launch(program: &mut Command) -> Self {
        let mut process = program.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (sender, lines) = mpsc::unbounded_channel();
        let output = BufReader::new(process.stdout.take().unwrap());
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Self { orders: process.stdin.take(), process, lines }
    }

    /// Waits until it has polled for the first time, and returns what it has said before.
    pub(crate) async fn ready(&mut self) -> Vec<String> {
        let mut lines = Vec::new();
        loop {
            match self.line().await {
                line if line == "ready" => return lines,
                line => lines.push(line),
            }
        }
    }

    /// Waits until it has delivered all of `ids`.
    pub(super) async fn hears_all(&mut self, ids: &[String]) {
        let mut missing = ids.to_vec();
        while !missing.is_empty() {
            if let Some(heard) = delivered(self.line().await) {
                missing.retain(|id| *id != heard);
            }
        }
    }

    /// Waits until it has lost `leases`, and returns how many it says.
    pub(super) async fn loses(&mut self, leases: usize) -> usize {
        loop {
            let line = self.line().await;
            let lost = line.strip_prefix("lost ").map(|lost| lost.parse().unwrap());
            if let Some(lost) = lost.filter(|&lost| lost >= leases) {
                return lost;
            }
        }
    }

    /// Lets it answer the events that it holds.
    pub(super) async fn answer(&mut self) {
        writeln!(self.orders.as_mut().unwrap(), "answer").unwrap();
    }

    /// SIGKILL; returns what it has said.
    pub(crate) async fn kill(mut self) -> Vec<String> {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
        let mut lines = Vec::new();
        while let Some(line) = self.next_line().await {
            lines.push(line);
        }
        lines
    }

    /// Lets it end, and returns what it has said.
    pub(crate) async fn end(mut self) -> Vec<String> {
        drop(self.orders.take());
        self.last_lines().await
    }

    /// SIGSTOP.
    pub(crate) fn stop(&self) {
        kill_process(self.pid(), Signal::STOP).unwrap();
    }

    /// SIGCONT.
    pub(crate) fn go_on(&self) {
        kill_process(self.pid(), Signal::CONT).unwrap();
    }

    /// Lets it close, and returns what it delivered since it was last asked.
    pub(super) async fn leave(mut self) -> Vec<String> {
        drop(self.orders.take());
        let lines = self.last_lines().await;
        assert!(!lines.iter().any(|line| line == SUPERSEDED), "it stopped by itself");
        lines.into_iter().filter_map(delivered).collect()
    }

    /// Waits until it has stopped by itself because of another member of its name, and returns what it delivered
    /// since it was last asked.
    pub(super) async fn stops(mut self) -> Vec<String> {
        let lines = self.last_lines().await;
        assert!(lines.iter().any(|line| line == SUPERSEDED), "it says why it stops");
        lines.into_iter().filter_map(delivered).collect()
    }

    async fn last_lines(&mut self) -> Vec<String> {
        let mut lines = Vec::new();
        while let Some(line) = self.next_line().await {
            lines.push(line);
        }
        assert!(self.process.wait().unwrap().success());
        lines
    }

    async fn line(&mut self) -> String {
        self.next_line().await.expect("the process runs")
    }

    async fn next_line(&mut self) -> Option<String> {
        tokio::time::timeout(PATIENCE, self.lines.recv()).await.expect("the process says something")
    }

    /// The number of the process.
    pub(crate) fn number(&self) -> u32 {
        self.process.id()
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.process)
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn delivered(line: String) -> Option<String> {
    line.strip_prefix("delivered ").map(str::to_owned)
}

/// Lets other processes run.
pub(super) async fn breathe() {
    tokio::time::sleep(Duration::from_millis(5)).await;
}
