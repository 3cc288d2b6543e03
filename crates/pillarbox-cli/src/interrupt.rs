//! Stopping half-way when the user says so: with what was done told, and what was made removed.

use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// The exit code of a program that was interrupted twice.
const AT_ONCE: i32 = 130;

/// Whether the user wants the command to end: SIGINT (Ctrl-C) or SIGTERM. The second one ends the program at once.
#[derive(Clone)]
pub(crate) struct Interrupt(CancellationToken);

impl Interrupt {
    /// Listens from now on.
    pub(crate) fn listen() -> std::io::Result<Self> {
        let token = CancellationToken::new();
        let (mut interrupt, mut terminate) =
            (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
        let heard = token.clone();
        tokio::spawn(async move {
            loop {
                tokio::select! {
                    _ = interrupt.recv() => {}
                    _ = terminate.recv() => {}
                }
                if heard.is_cancelled() {
                    std::process::exit(AT_ONCE);
                }
                heard.cancel();
            }
        });
        Ok(Self(token))
    }

    /// Whether it was heard.
    pub(crate) fn is_heard(&self) -> bool {
        self.0.is_cancelled()
    }

    /// Completes when it is heard.
    pub(crate) async fn heard(&self) {
        self.0.cancelled().await;
    }

    /// Waits for so long; false if it was heard meanwhile.
    pub(crate) async fn pause(&self, pause: Duration) -> bool {
        tokio::select! {
            biased;
            () = self.heard() => false,
            () = tokio::time::sleep(pause) => true,
        }
    }
}
