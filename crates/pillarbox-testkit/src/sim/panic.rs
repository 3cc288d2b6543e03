//! Panics: nobody's may go unnoticed, for the task that it ends is missed by nobody else.

use std::any::Any;
use std::fmt;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::str::FromStr;
use std::sync::Arc;
use std::task::Poll;

use tokio::task::JoinHandle;

use super::world::World;

/// What is said where somebody was asked to panic.
pub(super) const AS_ASKED: &str = "this panic was asked for";

/// Who panics on purpose, so that it is seen that it is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Panicking {
    /// A task of every process that is polled so often, at the twentieth poll of its tasks.
    Task,
    /// What starts and ends processes.
    Simulation,
}

impl Panicking {
    /// The poll at which a task panics.
    pub(super) const POLL: u64 = 20;
}

impl fmt::Display for Panicking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Task => "task",
            Self::Simulation => "simulation",
        })
    }
}

impl FromStr for Panicking {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "task" => Ok(Self::Task),
            "simulation" => Ok(Self::Simulation),
            other => Err(format!("`{other}` does not panic; use `task` or `simulation`")),
        }
    }
}

/// What `call` answers, or the text with which it panics.
pub(super) fn caught<T>(call: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(call)).map_err(|panic| text_of(&*panic))
}

/// The same for a future, which is not polled again after a panic.
pub(super) async fn caught_in<T>(future: impl Future<Output = T>) -> Result<T, String> {
    let mut future = pin!(future);
    poll_fn(|context| match caught(|| future.as_mut().poll(context)) {
        Ok(poll) => poll.map(Ok),
        Err(panic) => Poll::Ready(Err(panic)),
    })
    .await
}

fn text_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(ToString::to_string);
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "something else".to_owned())
}

impl World {
    /// Runs a task of the simulation beside its processes; its panic is a violation.
    pub(super) fn spawn(
        self: &Arc<Self>,
        name: &'static str,
        task: impl Future<Output = ()> + Send + 'static,
    ) -> JoinHandle<()> {
        let world = self.clone();
        tokio::spawn(async move {
            if let Err(panic) = caught_in(task).await {
                world.violation(format!("the task `{name}` of the simulation panicked: {panic}"));
            }
        })
    }
}
