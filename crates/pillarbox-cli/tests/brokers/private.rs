//! A broker of the trial's own, which it stops and kills.

use std::process::Command;

use pillarbox_testkit::servers::{Fresh, Server, unique_name};

use crate::broker::Broker;
use crate::stage::Stage;
use crate::tools::output;

/// The script that starts and kills servers, for one kind of them.
pub(crate) const fn services(name: &'static str) -> Server {
    Server { name, variable: "PILLARBOX_TEST_SERVICES", optional: false }
}

/// A broker that nobody else uses. It is deleted with its data.
pub(crate) struct Private<B> {
    script: String,
    name: String,
    pub(crate) stage: Stage<B>,
}

impl<B: Broker> Private<B> {
    /// Ends it in its own way.
    pub(crate) fn stop(&self) {
        run::<B>(&self.script, "stop", &self.name);
    }

    /// SIGKILL to all of its processes.
    pub(crate) fn kill(&self) {
        run::<B>(&self.script, "kill", &self.name);
    }

    /// Starts it again on its data, and waits until it answers.
    pub(crate) fn start(&self) {
        run::<B>(&self.script, "up", &self.name);
    }
}

fn run<B: Broker>(script: &str, verb: &str, name: &str) -> String {
    let mut command = Command::new(script);
    command.args([verb, name]).env_remove(B::SERVER.variable);
    output(command)
}

impl<B: Broker> Fresh for Private<B> {
    async fn fresh(script: &str) -> Self {
        let name = format!("{}@{}", B::KIND, unique_name().replace('_', "-"));
        run::<B>(script, "up", &name);
        let printed = run::<B>(script, "env", &name);
        let prefix = format!("export {}=", B::SERVER.variable);
        let url = printed.lines().find_map(|line| line.strip_prefix(&prefix)).unwrap();
        let stage = Stage::at(url.trim_matches(['\'', '"']));
        Self { script: script.to_owned(), name, stage }
    }

    async fn clean(self) {
        run::<B>(&self.script, "down", &self.name);
    }
}
