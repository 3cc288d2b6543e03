//! An application that goes on writing.

use std::io::Write;
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::database::{Kind, client, insert};

/// How many events each transaction writes, and how often there is one: few enough for several trials at once to be
/// delivered by a debug build on two cores, so that a backlog gets smaller again.
const BATCH: usize = 50;
const WRITE_EVERY: Duration = Duration::from_millis(100);

/// Writes events, transaction after transaction, until it is told to stop.
pub(crate) struct Load {
    is_over: Arc<AtomicBool>,
    written: Arc<AtomicUsize>,
    thread: JoinHandle<()>,
}

impl Load {
    /// Begins with the event of the number `first`.
    pub(crate) fn begin(kind: Kind, url: &str, first: usize) -> Self {
        let (is_over, written) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(first)));
        let client = client(kind, url).stdin(Stdio::piped()).spawn().unwrap();
        let (over, number) = (is_over.clone(), written.clone());
        let thread = std::thread::spawn(move || write(kind, client, &over, &number));
        Self { is_over, written, thread }
    }

    /// How many events there are.
    pub(crate) fn written(&self) -> usize {
        self.written.load(Ordering::Relaxed)
    }

    /// Ends it when all that it began is committed, and says how many events there are then.
    pub(crate) fn end(self) -> usize {
        self.is_over.store(true, Ordering::Relaxed);
        self.thread.join().unwrap();
        self.written.load(Ordering::Relaxed)
    }
}

fn write(kind: Kind, mut client: Child, is_over: &AtomicBool, written: &AtomicUsize) {
    let mut input = client.stdin.take().unwrap();
    while !is_over.load(Ordering::Relaxed) {
        let first = written.fetch_add(BATCH, Ordering::Relaxed);
        input.write_all(insert(kind, first..first + BATCH).as_bytes()).unwrap();
        // This is the pace of the application.
        std::thread::sleep(WRITE_EVERY);
    }
    drop(input);
    assert!(client.wait().unwrap().success());
}
