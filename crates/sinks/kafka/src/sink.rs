//! Publishing runs.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pillarbox::{BoxFuture, Run, Sink, SinkError, Template};
use rdkafka::ClientConfig;
use rdkafka::types::RDKafkaErrorCode as Code;
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::time::Instant;

use crate::client::{Client, Report, Ticket, lock};
use crate::failure::{About, Failure};
use crate::record::Record;
use crate::{KafkaOptions, KafkaOptionsError};

/// How long each batch has one event only, after a broker has refused one in which there may have been several.
const ALONE: Duration = Duration::from_secs(600);
/// How long a run waits before it looks again whether the client has room.
const ROOM: Duration = Duration::from_millis(5);

/// Publishes events to Apache Kafka.
///
/// `Ok` means that all in-sync replicas have the event. Making one needs no broker to be there: it connects when events
/// come, and again by itself.
pub struct KafkaSink {
    pub(crate) options: KafkaOptions,
    pub(crate) config: ClientConfig,
    client: Mutex<Arc<Client>>,
    /// Until when each batch has one event, so that a refusal says which one is meant.
    alone_until: Mutex<Option<Instant>>,
}

impl KafkaSink {
    /// A sink with these options, or why there can be none.
    pub fn new(options: KafkaOptions) -> Result<Self, KafkaOptionsError> {
        let config = options.client_config()?;
        let client = Client::new(&config, options.brokers(), false).map_err(KafkaOptionsError::of_client)?;
        Ok(Self { options, config, client: Mutex::new(Arc::new(client)), alone_until: Mutex::new(None) })
    }

    /// The client, a new one if the last is spent or makes other batches.
    fn client(&self) -> Result<Arc<Client>, SinkError> {
        let sends_alone = lock(&self.alone_until).is_some_and(|until| Instant::now() < until);
        let mut client = lock(&self.client);
        if client.is_spent() || client.sends_alone != sends_alone {
            let anew = Client::new(&self.config, self.options.brokers(), sends_alone);
            let anew =
                anew.map_err(|error| SinkError::unavailable(format!("no Kafka client can be made: {error}")));
            *client = Arc::new(anew?);
        }
        Ok(client.clone())
    }

    /// From the next run on events are sent alone, for a while.
    fn send_alone(&self, topic: &str, failure: Failure) {
        let until = lock(&self.alone_until).replace(Instant::now() + ALONE);
        if until.is_none_or(|until| until < Instant::now()) {
            tracing::warn!(
                "a broker refuses a batch of topic `{topic}` ({}); events are sent one by one for {ALONE:?}, which is slow, \
                 to find the one that is meant; `batch_bytes` must not exceed `max.message.bytes` of the topic",
                failure.code
            );
        }
    }
}

impl Sink for KafkaSink {
    fn publish<'a>(&'a self, run: &'a Run) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            match self.client() {
                Ok(client) => Flight::new(self, run, client).publish().await,
                Err(error) => run.answer_rest(&Err(error)),
            }
        })
    }
}

impl std::fmt::Debug for KafkaSink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KafkaSink").field("options", &self.options).finish_non_exhaustive()
    }
}

/// A run on its way.
struct Flight<'a> {
    sink: &'a KafkaSink,
    run: &'a Run,
    client: Arc<Client>,
    /// Keys of events that have failed: what follows them in the run and is not on its way is left for later.
    failed: HashSet<&'a str>,
    /// Topics of which the cluster has said in this run what closes them.
    closed: HashMap<String, Code>,
    tickets: UnboundedSender<Report>,
    reports: UnboundedReceiver<Report>,
    /// Until when events are handed to the client.
    by: Instant,
}

impl<'a> Flight<'a> {
    fn new(sink: &'a KafkaSink, run: &'a Run, client: Arc<Client>) -> Self {
        let (tickets, reports) = mpsc::unbounded_channel();
        let by = Instant::now() + sink.options.connect_timeout;
        let (failed, closed) = (HashSet::new(), HashMap::new());
        Self { sink, run, client, failed, closed, tickets, reports, by }
    }

    /// Sends in the order of the run, answering what is acknowledged meanwhile, then awaits the rest.
    async fn publish(mut self) {
        for index in 0..self.run.deliveries().len() {
            if let Err(error) = self.send(index).await {
                self.fail(index, error);
            }
            while let Ok(report) = self.reports.try_recv() {
                self.settle(report);
            }
        }
        // The last ticket that comes back ends the reports.
        let (last, _) = mpsc::unbounded_channel();
        drop(std::mem::replace(&mut self.tickets, last));
        while let Some(report) = self.reports.recv().await {
            self.settle(report);
        }
    }

    /// Hands an event to the client, or says why it was certainly not sent.
    async fn send(&mut self, index: usize) -> Result<(), SinkError> {
        if self.key(index).is_some_and(|key| self.failed.contains(key)) {
            return Err(SinkError::not_sent("an earlier event of its key has failed in this run"));
        }
        let record = self.record(index)?;
        if let Some(code) = self.reach(&record.topic).await? {
            return Err(self.answer(index, Failure::at_once(code)));
        }
        let mut outgoing = record.outgoing(Box::new(Ticket { index, reports: self.tickets.clone() }));
        loop {
            match self.client.send(outgoing) {
                Ok(()) => return Ok(()),
                Err((Code::QueueFull, given_back)) => {
                    outgoing = given_back;
                    self.wait_for_room().await?;
                }
                Err((code, _)) => return Err(self.answer(index, Failure::at_once(code))),
            }
        }
    }

    /// What closes a topic, asked once in a run.
    async fn reach(&mut self, topic: &str) -> Result<Option<Code>, SinkError> {
        if let Some(code) = self.closed.get(topic) {
            return Ok(Some(*code));
        }
        let against = self.client.reach(topic, self.by).await?;
        self.closed.extend(against.map(|code| (topic.to_owned(), code)));
        Ok(against)
    }

    async fn wait_for_room(&mut self) -> Result<(), SinkError> {
        if Instant::now() >= self.by {
            return Err(SinkError::unavailable(
                "the Kafka client has no room for further events; the brokers are slow, or \
                 `queue.buffering.max.messages` or `queue.buffering.max.kbytes` is small",
            ));
        }
        tokio::select! {
            biased;
            Some(report) = self.reports.recv() => self.settle(report),
            () = tokio::time::sleep(ROOM) => {}
        }
        Ok(())
    }

    /// What was acknowledged is done, whatever became of those before it.
    fn settle(&mut self, (index, report): Report) {
        match report {
            Ok(()) => self.run.answer(index, Ok(())),
            Err(failure) => self.fail(index, self.answer(index, failure)),
        }
    }

    fn fail(&mut self, index: usize, error: SinkError) {
        self.failed.extend(self.key(index));
        self.run.answer(index, Err(error));
    }

    fn answer(&self, index: usize, failure: Failure) -> SinkError {
        if failure.is_of_connection() {
            self.client.doubt();
        }
        let record = match self.record(index) {
            Ok(record) => record,
            Err(error) => return error,
        };
        if failure.is_of_topic() {
            self.client.doubt_topic(&record.topic);
        }
        let options = &self.sink.options;
        let was_alone = self.client.sends_alone || record.size() > options.batch_bytes;
        if failure.is_of_batch() && !was_alone {
            self.sink.send_alone(&record.topic, failure);
        }
        let is_for_all = self.template(index).as_constant().is_some();
        failure.answer(&About { topic: &record.topic, is_for_all, was_alone })
    }

    fn key(&self, index: usize) -> Option<&'a str> {
        self.run.deliveries()[index].key()
    }

    fn record(&self, index: usize) -> Result<Record<'a>, SinkError> {
        let KafkaOptions { messages, max_message_bytes, .. } = &self.sink.options;
        Record::of(&self.run.deliveries()[index], self.template(index), messages, *max_message_bytes)
    }

    fn template(&self, index: usize) -> &'a Template {
        self.run.address(index).unwrap_or(&self.sink.options.topic)
    }
}
