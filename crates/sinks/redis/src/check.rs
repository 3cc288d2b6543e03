//! Whether the server can keep what the sink promises.

use pillarbox_message::Finding;
use redis::aio::MultiplexedConnection;
use redis::{RedisResult, cmd};

use crate::sink::RedisSink;
use crate::verdict::cause;

/// What is to be known about a server: what it tells of itself, and its settings as far as it shows them.
#[derive(Default)]
struct Facts {
    info: String,
    append_only: Option<String>,
    append_sync: Option<String>,
    max_memory: Option<String>,
    eviction: Option<String>,
    max_bulk: Option<String>,
}

impl RedisSink {
    /// What is to be said about the server: whether it can be reached, keeps what it acknowledges, and takes the largest
    /// legal event.
    pub async fn check(&self) -> Vec<Finding> {
        let mut connection = match self.slot.connection(&self.options).await {
            Ok(connection) => connection,
            Err(error) => {
                return vec![Finding::unreachable(format!("{error}; events wait until that is mended"))];
            }
        };
        match Facts::of(&mut connection.commands).await {
            Ok(facts) => {
                let replicas = self.options.replicas.map_or(0, |replicas| replicas.count);
                facts.findings(self.options.messages.largest(), replicas)
            }
            Err(error) => {
                self.slot.forget(&connection).await;
                vec![Finding::unknown(format!("Redis does not tell its state: {}", cause(&error)))]
            }
        }
    }
}

impl Facts {
    async fn of(connection: &mut MultiplexedConnection) -> RedisResult<Self> {
        let info = cmd("INFO").query_async(connection).await?;
        Ok(Self {
            info,
            append_only: setting(connection, "appendonly").await,
            append_sync: setting(connection, "appendfsync").await,
            max_memory: setting(connection, "maxmemory").await,
            eviction: setting(connection, "maxmemory-policy").await,
            max_bulk: setting(connection, "proto-max-bulk-len").await,
        })
    }

    /// A line of what the server tells of itself.
    fn told(&self, name: &str) -> Option<&str> {
        let lines = self.info.lines().filter_map(|line| line.split_once(':'));
        lines.filter(|(key, _)| *key == name).map(|(_, value)| value.trim()).next()
    }

    fn findings(&self, largest: usize, replicas: usize) -> Vec<Finding> {
        let mut findings = Vec::new();
        if self.told("cluster_enabled") == Some("1") {
            findings.push(Finding::refusal(
                "the server is a node of Redis Cluster, which is not supported: events for streams on other nodes would \
                 wait for ever",
            ));
        }
        if self.told("role") == Some("slave") {
            findings.push(Finding::unreachable(
                "the server is a replica and takes no events; connect to the primary, or make it one",
            ));
        }
        let connected = self.told("connected_slaves").and_then(|count| count.parse::<usize>().ok());
        if let Some(connected) = connected.filter(|connected| *connected < replicas) {
            findings.push(Finding::warning(format!(
                "the server has {connected} replicas, and {replicas} are waited for: no event is acknowledged until there \
                 are as many"
            )));
        }
        findings.extend(self.of_disk());
        findings.extend(self.of_memory());
        if let Some(limit) = self.max_bulk.as_deref().and_then(|limit| limit.parse::<usize>().ok())
            && limit < largest
        {
            findings.push(Finding::warning(format!(
                "the server's limit for a value, `proto-max-bulk-len`, is {limit} bytes; the largest events come to \
                 {largest}, and over the limit the server hangs up, for ever again; raise it"
            )));
        }
        findings
    }

    /// Whether what is acknowledged is on disk.
    fn of_disk(&self) -> Option<Finding> {
        let text = match (self.append_only.as_deref(), self.append_sync.as_deref()) {
            (None, _) => {
                return Some(Finding::unknown(
                    "the server does not show its settings, so whether it keeps what it acknowledges and takes the \
                     largest events is not known; allow the user `CONFIG GET` (`+config|get`)",
                ));
            }
            (Some("yes"), Some("always")) => return None,
            (Some("yes"), _) => {
                "the server syncs its disk now and then (`appendfsync` is not `always`): a machine that loses its power \
                 loses the events of the last second or more that it acknowledged"
            }
            _ => {
                "the server keeps no log of what it does (`appendonly` is not `yes`): when it ends badly, events that it \
                 acknowledged since its last snapshot are lost"
            }
        };
        Some(Finding::warning(text))
    }

    /// Whether streams are deleted to make room. Policies that begin with `volatile` leave keys without an end alone.
    fn of_memory(&self) -> Option<Finding> {
        let (eviction, limit) = (self.eviction.as_deref()?, self.max_memory.as_deref()?);
        let evicts = eviction.starts_with("allkeys") && limit != "0";
        evicts.then(|| {
            Finding::warning(format!(
                "the server deletes whole streams when its memory is full (`maxmemory-policy {eviction}`), events that \
                 nobody has read included; set it to `noeviction`"
            ))
        })
    }
}

/// A setting, if the server shows it.
async fn setting(connection: &mut MultiplexedConnection, name: &str) -> Option<String> {
    let pair: Vec<String> = cmd("CONFIG").arg("GET").arg(name).query_async(connection).await.ok()?;
    pair.into_iter().nth(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LARGEST: usize = 1_100_000;

    fn durable() -> Facts {
        Facts {
            info: "# Replication\r\nrole:master\r\nconnected_slaves:1\r\ncluster_enabled:0\r\n".to_owned(),
            append_only: Some("yes".to_owned()),
            append_sync: Some("always".to_owned()),
            max_memory: Some("0".to_owned()),
            eviction: Some("noeviction".to_owned()),
            max_bulk: Some("536870912".to_owned()),
        }
    }

    #[test]
    fn server_that_keeps_everything_gives_no_cause_for_complaint() {
        assert_eq!(durable().findings(LARGEST, 1), []);
    }

    #[test]
    fn each_weakness_of_a_server_is_named() {
        let some = |text: &str| Some(text.to_owned());
        let evicting = Facts { max_memory: some("1000000"), eviction: some("allkeys-lru"), ..durable() };
        for (facts, text, is_refusal) in [
            (Facts { info: "cluster_enabled:1\r\n".to_owned(), ..durable() }, "Redis Cluster", true),
            (Facts { info: "role:slave\r\n".to_owned(), ..durable() }, "is a replica", false),
            (
                Facts { info: "connected_slaves:0\r\n".to_owned(), ..durable() },
                "has 0 replicas, and 1 are",
                false,
            ),
            (Facts { append_only: None, ..durable() }, "does not show its settings", false),
            (Facts { append_only: some("no"), ..durable() }, "`appendonly` is not `yes`", false),
            (Facts { append_sync: some("everysec"), ..durable() }, "`appendfsync` is not `always`", false),
            (evicting, "`maxmemory-policy allkeys-lru`", false),
            (Facts { max_bulk: some("1048576"), ..durable() }, "`proto-max-bulk-len`, is 1048576", false),
        ] {
            let findings = facts.findings(LARGEST, 1);

            assert_eq!(findings.len(), 1, "{text}: {findings:?}");
            assert!(findings[0].text.contains(text), "{}", findings[0]);
            assert_eq!(findings[0].is_refusal(), is_refusal, "{}", findings[0]);
        }
    }
}
