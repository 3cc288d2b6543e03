//! The part of `pillarbox status` that a running relay tells: how its outboxes and sinks are doing.

use std::fmt::{self, Write};
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::figure;

/// What a relay answers at.
const PATH: &str = "/status";
/// How long it may take for its answer, and how long that may be.
const PATIENCE: Duration = Duration::from_secs(5);
const LARGEST: u64 = 4 << 20;

const HINT: &str = "write the address of `http.listen` in its file, for example `http://127.0.0.1:9464`";

/// Where a relay can be reached.
#[derive(Clone, Debug)]
pub(super) struct RelayUrl {
    /// Host and port.
    authority: String,
    path: String,
}

impl FromStr for RelayUrl {
    type Err = String;

    fn from_str(given: &str) -> Result<Self, String> {
        let rest = match given.split_once("://") {
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("http") => rest,
            Some(_) => return Err(format!("a relay is asked by plain HTTP; {HINT}")),
            None => given,
        };
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        if given.contains(|character: char| character.is_control() || character.is_whitespace()) {
            return Err(format!("there are blanks in it; {HINT}"));
        }
        if authority.contains('@') {
            return Err(format!("a relay asks for no password; {HINT}"));
        }
        let port = authority.rsplit_once(':').filter(|(host, _)| !host.is_empty()).map(|(_, port)| port);
        if port.and_then(|port| port.parse::<u16>().ok()).is_none() {
            return Err(format!("it has no host and port; {HINT}"));
        }
        let base = path.trim_end_matches('/');
        let base = base.strip_suffix(PATH).unwrap_or(base);
        Ok(Self { authority: authority.to_owned(), path: format!("{base}{PATH}") })
    }
}

impl fmt::Display for RelayUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "http://{}", self.authority)
    }
}

/// What a relay said when it was asked, or why it said nothing.
pub(super) struct Answer {
    url: String,
    said: Result<(Value, Vec<Outbox>), String>,
}

/// What is printed as JSON.
#[derive(Serialize)]
pub(super) struct Shown<'a> {
    url: &'a str,
    /// Why it could not be asked; `null` if it answered.
    error: Option<&'a str>,
    /// As the relay tells them; `null` if it could not be asked.
    outboxes: Option<&'a Value>,
}

/// One of its outboxes.
#[derive(Deserialize)]
struct Outbox {
    name: String,
    trouble: Option<String>,
    #[serde(default)]
    delivered: u64,
    #[serde(default)]
    failed: u64,
    #[serde(default)]
    dead: u64,
    #[serde(default)]
    sinks: Vec<Sink>,
}

#[derive(Deserialize)]
struct Sink {
    name: String,
    /// `well`, `trying` or `down`.
    state: String,
    /// Since when it is not well.
    down_since: Option<String>,
    last_error: Option<String>,
}

impl RelayUrl {
    /// Asks the relay; that it does not answer is an answer too.
    pub(super) async fn ask(&self) -> Answer {
        let said = match tokio::time::timeout(PATIENCE, self.get()).await {
            Ok(Ok(bytes)) => read(&bytes),
            Ok(Err(error)) => Err(format!(
                "it cannot be reached ({error}); see whether it runs, and `http.listen` in its file"
            )),
            Err(_) => Err(format!("it does not answer within {}", figure::time(PATIENCE))),
        };
        Answer { url: self.to_string(), said }
    }

    /// Everything that it sends. By HTTP/1.0 that is not in chunks, and ends when it hangs up.
    async fn get(&self) -> std::io::Result<Vec<u8>> {
        let Self { authority, path } = self;
        let mut stream = TcpStream::connect(authority).await?;
        let request = format!("GET {path} HTTP/1.0\r\nhost: {authority}\r\naccept: application/json\r\n\r\n");
        stream.write_all(request.as_bytes()).await?;
        let mut bytes = Vec::new();
        stream.take(LARGEST).read_to_end(&mut bytes).await?;
        Ok(bytes)
    }
}

/// What the relay says in its answer.
fn read(bytes: &[u8]) -> Result<(Value, Vec<Outbox>), String> {
    let text = String::from_utf8_lossy(bytes);
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    let line = head.lines().next().unwrap_or_default();
    if line.split(' ').nth(1) != Some("200") {
        let line = figure::short(&figure::plain(line), 60);
        return Err(format!("it answers `{line}`; see whether a relay listens there"));
    }
    let other =
        |_| "it answers something else than a relay does; see whether a relay listens there".to_owned();
    let mut told: Value = serde_json::from_str(body).map_err(other)?;
    let outboxes = told.get_mut("outboxes").map(Value::take).unwrap_or_default();
    let read = Vec::deserialize(&outboxes).map_err(other)?;
    Ok((outboxes, read))
}

impl Answer {
    pub(super) fn shown(&self) -> Shown<'_> {
        Shown {
            url: &self.url,
            error: self.said.as_ref().err().map(String::as_str),
            outboxes: self.said.as_ref().ok().map(|(told, _)| told),
        }
    }

    /// Why nothing is known.
    pub(super) fn error(&self) -> Option<String> {
        self.said.as_ref().err().map(|reason| format!("the relay at {}: {reason}", self.url))
    }

    /// What is printed for people.
    pub(super) fn table(&self) -> Result<String, fmt::Error> {
        let mut table = String::new();
        let outboxes = match &self.said {
            Ok((_, outboxes)) => outboxes,
            Err(reason) => {
                writeln!(table, "\nrelay at {}: unknown, {reason}", self.url)?;
                return Ok(table);
            }
        };
        writeln!(table, "\nrelay at {}", self.url)?;
        for outbox in outboxes {
            write_outbox(&mut table, outbox)?;
        }
        Ok(table)
    }
}

fn write_outbox(table: &mut String, outbox: &Outbox) -> fmt::Result {
    let [delivered, failed, dead] = [outbox.delivered, outbox.failed, outbox.dead].map(figure::count);
    let name = figure::plain(&outbox.name);
    writeln!(
        table,
        "  outbox `{name}`: {delivered} delivered, {failed} failed, {dead} dead since it was started"
    )?;
    if let Some(trouble) = &outbox.trouble {
        writeln!(table, "  it does not deliver: {}", figure::plain(trouble))?;
    }
    let names: Vec<String> = outbox.sinks.iter().map(|sink| figure::plain(&sink.name)).collect();
    let width = names.iter().map(|name| name.chars().count()).chain(["SINK".len()]).max().unwrap_or(0);
    writeln!(table, "\n  {:<width$}  STATE   LAST ERROR", "SINK")?;
    for (name, sink) in names.iter().zip(&outbox.sinks) {
        let error = sink.last_error.as_deref().map_or_else(|| "–".to_owned(), figure::plain);
        let error = match &sink.down_since {
            Some(since) => format!("since {}: {error}", figure::plain(since)),
            None => error,
        };
        writeln!(table, "  {name:<width$}  {:<6}  {error}", figure::plain(&sink.state))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// K3: an address is read with and without its scheme and path.
    #[test]
    fn addresses_are_read() {
        for (given, path) in [
            ("http://127.0.0.1:9464", "/status"),
            ("HTTP://127.0.0.1:9464/", "/status"),
            ("127.0.0.1:9464/status", "/status"),
            ("http://127.0.0.1:9464/relays/eu", "/relays/eu/status"),
        ] {
            let url: RelayUrl = given.parse().unwrap();
            assert_eq!((url.to_string().as_str(), url.path.as_str()), ("http://127.0.0.1:9464", path));
        }
    }

    #[test]
    fn anything_else_is_refused_with_an_example() {
        for (given, reason) in [
            ("https://127.0.0.1:9464", "plain HTTP"),
            ("127.0.0.1", "no host and port"),
            (":9464", "no host and port"),
            ("", "no host and port"),
            ("http://localhost:many", "no host and port"),
            ("http://a:b@localhost:9464", "no password"),
            ("127.0.0.1:9464/x\r\nhost: evil", "blanks"),
        ] {
            let error = given.parse::<RelayUrl>().unwrap_err();
            assert!(error.contains(reason) && error.contains("http://127.0.0.1:9464"), "{given}: {error}");
        }
    }

    /// M6: what is no status of a relay is unknown, with the reason.
    #[test]
    fn answers_of_others_are_no_status() {
        for (answer, reason) in [
            ("HTTP/1.0 404 Not Found\r\n\r\n", "it answers `HTTP/1.0 404 Not Found`"),
            ("HTTP/1.0 200 OK\r\n\r\n<html>", "something else than a relay"),
            ("HTTP/1.0 200 OK\r\n\r\n{}", "something else than a relay"),
            ("HTTP/1.0 200 OK\r\n\r\n[17]", "something else than a relay"),
            ("220 smtp.example", "it answers `220 smtp.example`"),
            ("", "it answers ``"),
        ] {
            let error = read(answer.as_bytes()).err().unwrap();
            assert!(error.contains(reason), "{answer}: {error}");
        }
    }
}
