//! Publishes runs to streams of Redis.

use std::collections::HashSet;
use std::fmt;

use pillarbox::{BoxFuture, Run, Sink, SinkError};
use redis::{Pipeline, RedisResult};

use crate::connection::{Connection, Slot};
use crate::entry::Entry;
use crate::options::{RedisOptions, Replicas};
use crate::verdict;

/// Publishes events to Redis Streams.
///
/// An event is acknowledged when Redis has added it to its stream, and when as many replicas have it as were asked for.
/// Redis recognises no duplicates: consumers do, by the field `event-id`. The connection is made with the first run, and
/// anew with the next one when it was lost.
pub struct RedisSink {
    pub(crate) options: RedisOptions,
    pub(crate) slot: Slot,
}

impl RedisSink {
    /// A sink that connects when it is first used.
    pub fn new(options: RedisOptions) -> Self {
        Self { options, slot: Slot::empty() }
    }

    async fn publish_run(&self, run: &Run) {
        let connection = match self.slot.connection(&self.options).await {
            Ok(connection) => connection,
            Err(error) => return run.answer_rest(&Err(error)),
        };
        if !self.send_all(run, &connection).await {
            self.slot.forget(&connection).await;
            run.answer_rest(&Err(SinkError::unavailable(
                "it was not sent: an earlier event of the run has shown that this connection to Redis is of no use",
            )));
        }
    }

    /// Sends the run in order, a part at a time, and answers it as far as the connection is of use; tells whether it still
    /// is.
    async fn send_all(&self, run: &Run, connection: &Connection) -> bool {
        let options = &self.options;
        let mut part = Part::new(run, connection, options);
        for (index, delivery) in run.deliveries().iter().enumerate() {
            let template = run.address(index).unwrap_or(&options.stream);
            match Entry::of(delivery, template, &options.messages, options.trim) {
                Ok(entry) => {
                    if part.is_full_with(&entry) && !part.send().await {
                        return false;
                    }
                    part.add(index, entry);
                }
                Err(error) => part.fail(index, error),
            }
        }
        part.send().await
    }
}

impl Sink for RedisSink {
    fn publish<'a>(&'a self, run: &'a Run) -> BoxFuture<'a, ()> {
        Box::pin(self.publish_run(run))
    }
}

impl fmt::Debug for RedisSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisSink").field("options", &self.options).finish_non_exhaustive()
    }
}

/// A part of a run, sent in one go.
///
/// Sent one by one, commands could overtake each other on their way into the connection when it is busy.
struct Part<'r> {
    run: &'r Run,
    connection: &'r Connection,
    options: &'r RedisOptions,
    commands: Pipeline,
    /// The place of each event in the run, and the stream that it goes to.
    events: Vec<(usize, String)>,
    bytes: usize,
    /// Keys of events that have failed: what follows them in the run is left for later.
    failed: HashSet<&'r str>,
}

impl<'r> Part<'r> {
    fn new(run: &'r Run, connection: &'r Connection, options: &'r RedisOptions) -> Self {
        let (commands, events, failed) = (redis::pipe(), Vec::new(), HashSet::new());
        Self { run, connection, options, commands, events, bytes: 0, failed }
    }

    fn is_full_with(&self, entry: &Entry) -> bool {
        let Self { events, options, .. } = self;
        !events.is_empty()
            && (events.len() >= options.max_events || self.bytes + entry.size > options.max_bytes)
    }

    fn add(&mut self, index: usize, entry: Entry) {
        if self.run.deliveries()[index].key().is_some_and(|key| self.failed.contains(key)) {
            let error = SinkError::not_sent("an earlier event of its key has failed in this run");
            return self.run.answer(index, Err(error));
        }
        self.commands.add_command(entry.command);
        self.events.push((index, entry.stream));
        self.bytes += entry.size;
    }

    /// Sends what there is and answers it, each event by what came back for it; then it is empty again. Tells whether the
    /// connection is still of use.
    async fn send(&mut self) -> bool {
        let mut commands = std::mem::replace(&mut self.commands, redis::pipe());
        let events = std::mem::take(&mut self.events);
        self.bytes = 0;
        if events.is_empty() {
            return true;
        }
        let answers: RedisResult<Vec<RedisResult<String>>> =
            commands.ignore_errors().query_async(&mut self.connection.commands.clone()).await;
        let answers = match answers {
            Ok(answers) => answers,
            Err(error) => {
                for (index, stream) in &events {
                    self.fail(*index, verdict::of(stream, &error));
                }
                return false;
            }
        };
        let (mut added, mut is_of_use) = (Vec::new(), true);
        for ((index, stream), answer) in events.iter().zip(answers) {
            match answer {
                Ok(_) => added.push(*index),
                Err(error) => {
                    is_of_use &= !verdict::is_doubtful(&error);
                    self.fail(*index, verdict::of(stream, &error));
                }
            }
        }
        is_of_use & self.acknowledge(added).await
    }

    /// Answers what Redis has added, once the replicas that were asked for have it. Tells whether the connection is still
    /// of use.
    async fn acknowledge(&mut self, added: Vec<usize>) -> bool {
        let (mut answer, mut is_of_use) = (Ok(()), true);
        if let Some(replicas) = self.options.replicas.filter(|_| !added.is_empty()) {
            let have = wait_for(replicas, self.connection).await;
            is_of_use = !have.as_ref().is_err_and(verdict::is_doubtful);
            answer = replicated(replicas, have);
        }
        for index in added {
            match &answer {
                Ok(()) => self.run.answer(index, Ok(())),
                Err(error) => self.fail(index, error.clone()),
            }
        }
        is_of_use
    }

    fn fail(&mut self, index: usize, error: SinkError) {
        self.failed.extend(self.run.deliveries()[index].key());
        self.run.answer(index, Err(error));
    }
}

/// Waits until replicas have all that this connection has sent so far; tells how many have it.
async fn wait_for(replicas: Replicas, connection: &Connection) -> RedisResult<usize> {
    // Zero would be for ever.
    let milliseconds = u64::try_from(replicas.within.as_millis()).unwrap_or(u64::MAX).max(1);
    let mut wait = redis::cmd("WAIT");
    wait.arg(replicas.count).arg(milliseconds);
    wait.query_async(&mut connection.commands.clone()).await
}

/// The answer to events that Redis has added, once it is known how many replicas have them.
fn replicated(Replicas { count, within }: Replicas, have: RedisResult<usize>) -> Result<(), SinkError> {
    let lacks = match have {
        Ok(have) if have >= count => return Ok(()),
        Ok(have) => format!("{have} of {count} replicas have it after {within:?}"),
        Err(error) => format!("does not say how many replicas have it: {}", verdict::cause(&error)),
    };
    Err(SinkError::unknown(format!("Redis has added the event, and {lacks}")))
}
