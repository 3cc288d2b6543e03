//! A service that runs as a process of its own and is spoken to by HTTP, as its users do.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// Long enough for anything, even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// A service that runs; killed when it is dropped.
pub(crate) struct Service {
    child: Child,
    out: BufReader<ChildStdout>,
    /// What it logs, read all the time so that it never waits for us.
    log: Option<JoinHandle<String>>,
    /// Where it listens: `127.0.0.1:port`.
    pub(crate) address: String,
}

/// What it answers to a request.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: Value,
}

/// How it ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) log: String,
}

impl Service {
    /// Starts it on a free port, and returns when it listens.
    pub(crate) fn start(program: &mut Command) -> Self {
        program.env("LISTEN", "127.0.0.1:0").stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = program.spawn().unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut err = child.stderr.take().unwrap();
        let log = std::thread::spawn(move || {
            let mut text = Vec::new();
            err.read_to_end(&mut text).unwrap();
            String::from_utf8_lossy(&text).into_owned()
        });
        let mut line = String::new();
        out.read_line(&mut line).unwrap();
        let Some(address) = line.trim_end().strip_prefix("listening on http://") else {
            let _ = child.kill();
            panic!("{line}{}", log.join().unwrap());
        };
        Self { address: address.to_owned(), child, out, log: Some(log) }
    }

    pub(crate) fn get(&self, path: &str) -> Answer {
        self.request("GET", path, "")
    }

    pub(crate) fn post(&self, path: &str, body: &str) -> Answer {
        self.request("POST", path, body)
    }

    fn request(&self, method: &str, path: &str, body: &str) -> Answer {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let length = body.len();
        let head = format!(
            "{method} {path} HTTP/1.0\r\nhost: {}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n",
            self.address
        );
        stream.write_all(format!("{head}{body}").as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        // Not every refusal of the web framework is JSON.
        let body = serde_json::from_str(body).unwrap_or_else(|_| Value::from(body));
        Answer { status, head: head.to_owned(), body }
    }

    /// Ends it by a signal, and waits.
    pub(crate) fn stop(mut self, signal: Signal) -> Ended {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
        let code = self.child.wait().unwrap().code();
        let mut out = String::new();
        self.out.read_to_string(&mut out).unwrap();
        Ended { code, out, log: self.log.take().unwrap().join().unwrap() }
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What `look` finds, as soon as it finds something.
pub(crate) fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < end, "not within {PATIENCE:?}: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Runs the lines of a page that begin with `$ curl` against the service, and compares what they print with what the
/// page shows under them, in which `…` stands for anything. Returns how many there were.
pub(crate) fn follow(page: &str, service: &Service) -> usize {
    let mut lines = page.lines().peekable();
    let mut followed = 0;
    while let Some(line) = lines.next() {
        let Some(command) = line.strip_prefix("$ ").filter(|command| command.starts_with("curl ")) else {
            continue;
        };
        let shown = lines.peek().expect("the page shows what is printed");
        let command = command.replace("localhost:8080", &service.address);
        eventually(&format!("{command} prints {shown}"), || {
            let ran = Command::new("sh").args(["-c", &command]).output().unwrap();
            assert!(ran.status.success(), "{command}: {}", String::from_utf8_lossy(&ran.stderr));
            matches(shown, String::from_utf8(ran.stdout).unwrap().trim_end()).then_some(())
        });
        followed += 1;
    }
    followed
}

/// Whether a text is as it is shown, with anything where `…` stands.
fn matches(shown: &str, text: &str) -> bool {
    let mut parts = shown.split('…');
    let Some(mut rest) = text.strip_prefix(parts.next().unwrap_or_default()) else { return false };
    let parts: Vec<&str> = parts.collect();
    let Some((last, between)) = parts.split_last() else { return rest.is_empty() };
    for part in between {
        let Some((_, after)) = rest.split_once(part) else { return false };
        rest = after;
    }
    rest.ends_with(last)
}
