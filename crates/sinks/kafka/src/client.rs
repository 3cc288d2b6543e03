//! The client of a sink: what it hears back, and whether it is still good for anything.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pillarbox::SinkError;
use rdkafka::config::{ClientConfig, RDKafkaLogLevel};
use rdkafka::error::{KafkaError, KafkaResult};
use rdkafka::message::{DeliveryResult, Message as _};
use rdkafka::producer::{BaseRecord, NoCustomPartitioner, Producer, ProducerContext, ThreadedProducer};
use rdkafka::types::RDKafkaErrorCode as Code;
use rdkafka::{ClientContext, Statistics};
use tokio::sync::mpsc::UnboundedSender;
use tokio::time::{Instant, timeout_at};

use crate::failure::Failure;

/// The place of an event in its run, and what became of it.
pub(crate) type Report = (usize, Result<(), Failure>);

/// What goes with an event and comes back with its acknowledgement.
pub(crate) struct Ticket {
    pub(crate) index: usize,
    pub(crate) reports: UnboundedSender<Report>,
}

pub(crate) type Outgoing<'a> = BaseRecord<'a, str, [u8], Box<Ticket>>;

/// An idempotent producer, shared by all runs.
pub(crate) struct Client {
    /// There until the client is dropped.
    producer: Option<ThreadedProducer<Hearing>>,
    brokers: String,
    /// Whether each batch has one event only.
    pub(crate) sends_alone: bool,
    /// Held by the run that asks whether the cluster is there.
    asking: tokio::sync::Mutex<()>,
    /// Topics that were not there or not open when they were last asked for.
    closed: Mutex<BTreeSet<String>>,
}

impl Client {
    pub(crate) fn new(config: &ClientConfig, brokers: &str, sends_alone: bool) -> KafkaResult<Self> {
        let mut config = config.clone();
        if sends_alone {
            config.set("batch.num.messages", "1");
        }
        Ok(Self {
            producer: Some(config.create_with_context(Hearing::default())?),
            brokers: brokers.to_owned(),
            sends_alone,
            asking: tokio::sync::Mutex::default(),
            closed: Mutex::default(),
        })
    }

    /// Whether it will never send again, so that another must be made.
    pub(crate) fn is_spent(&self) -> bool {
        let has_given_up = |producer: &ThreadedProducer<Hearing>| producer.client().fatal_error().is_some();
        self.producer.as_ref().is_none_or(has_given_up)
    }

    /// Asks whether the cluster is there before the next event is handed over.
    pub(crate) fn doubt(&self) {
        self.hearing().inspect(|hearing| hearing.doubt());
    }

    /// Asks about this topic before the next event for it is handed over. By itself the client would look again after
    /// minutes.
    pub(crate) fn doubt_topic(&self, topic: &str) {
        lock(&self.closed).insert(topic.to_owned());
    }

    /// Waits until the cluster has answered, unless it has and nothing was heard since that makes this doubtful; gives
    /// what it says against the topic. What is not handed to the client before is known not to be sent.
    pub(crate) async fn reach(self: &Arc<Self>, topic: &str, by: Instant) -> Result<Option<Code>, SinkError> {
        if self.can_reach(topic) {
            return Ok(None);
        }
        let asked = async {
            let _turn = self.asking.lock().await;
            let (client, topic) = (self.clone(), topic.to_owned());
            let within = by.saturating_duration_since(Instant::now());
            // Not bound to this run: whoever asks next profits from the answer.
            let ask = move || if client.can_reach(&topic) { Ok(None) } else { client.ask(&topic, within) };
            tokio::task::spawn_blocking(ask).await
        };
        match timeout_at(by, asked).await {
            Ok(Ok(Ok(against))) => Ok(against),
            _ => Err(self.unreachable()),
        }
    }

    fn can_reach(&self, topic: &str) -> bool {
        self.hearing().is_some_and(Hearing::is_reachable) && !lock(&self.closed).contains(topic)
    }

    /// Asks for a topic, and gives what still closes it. One that was not closed before may have been made just now: for
    /// that the client itself has patience.
    fn ask(&self, topic: &str, within: Duration) -> KafkaResult<Option<Code>> {
        let Some(producer) = &self.producer else { return Err(KafkaError::Canceled) };
        let hearing = producer.client().context();
        // Before the question: what is heard meanwhile makes its answer doubtful again.
        let doubts = hearing.doubts.load(Ordering::Relaxed);
        let metadata = producer.client().fetch_metadata(Some(topic), within)?;
        hearing.dispelled.store(doubts, Ordering::Relaxed);
        let told = metadata.topics().iter().find(|told| told.name() == topic);
        let against = told.and_then(|told| told.error()).map(Code::from);
        let against = against.filter(|code| Failure::at_once(*code).is_of_topic());
        let mut closed = lock(&self.closed);
        if against.is_none() {
            closed.remove(topic);
        }
        Ok(against.filter(|_| closed.contains(topic)))
    }

    fn unreachable(&self) -> SinkError {
        let heard = self.hearing().and_then(Hearing::last_complaint);
        let heard = heard.map_or_else(String::new, |complaint| format!(": {complaint}"));
        SinkError::unavailable(format!("no broker of `{}` answers{heard}", self.brokers))
    }

    /// Hands an event over, or gives it back.
    pub(crate) fn send<'a>(&self, outgoing: Outgoing<'a>) -> Result<(), (Code, Outgoing<'a>)> {
        let Some(producer) = &self.producer else { return Err((Code::Fatal, outgoing)) };
        let code = |error: KafkaError| error.rdkafka_error_code().unwrap_or(Code::InvalidArgument);
        producer.send(outgoing).map_err(|(error, outgoing)| (code(error), outgoing))
    }

    fn hearing(&self) -> Option<&Hearing> {
        self.producer.as_ref().map(|producer| &**producer.client().context())
    }
}

impl Drop for Client {
    /// Drops what is queued, on a thread of its own: the client waits for its threads to end.
    fn drop(&mut self) {
        let producer = self.producer.take();
        std::thread::spawn(move || drop(producer));
    }
}

/// What a client hears.
pub(crate) struct Hearing {
    /// How often the way to the brokers became doubtful, and how many of these doubts an answer has dispelled.
    doubts: AtomicU64,
    dispelled: AtomicU64,
    complaint: Mutex<Option<String>>,
}

impl Default for Hearing {
    /// Nothing was heard, so it is doubtful whether anybody is there.
    fn default() -> Self {
        Self { doubts: AtomicU64::new(1), dispelled: AtomicU64::new(0), complaint: Mutex::new(None) }
    }
}

impl Hearing {
    fn doubt(&self) {
        self.doubts.fetch_add(1, Ordering::Relaxed);
    }

    fn is_reachable(&self) -> bool {
        self.dispelled.load(Ordering::Relaxed) == self.doubts.load(Ordering::Relaxed)
    }

    fn last_complaint(&self) -> Option<String> {
        lock(&self.complaint).clone()
    }
}

impl ClientContext for Hearing {
    /// Quietly: what a failure means for events is in their answers.
    fn log(&self, level: RDKafkaLogLevel, facility: &str, line: &str) {
        tracing::debug!(?level, facility, "{line}");
    }

    fn stats(&self, _statistics: Statistics) {}

    fn stats_raw(&self, statistics: &[u8]) {
        tracing::debug!(statistics = %String::from_utf8_lossy(statistics));
    }

    fn error(&self, error: KafkaError, reason: &str) {
        match error.rdkafka_error_code() {
            Some(Code::Fatal) => tracing::warn!("the Kafka client has given up and is made anew: {reason}"),
            Some(Code::AllBrokersDown) => self.doubt(),
            _ => *lock(&self.complaint) = Some(reason.to_owned()),
        }
    }
}

impl ProducerContext<NoCustomPartitioner> for Hearing {
    type DeliveryOpaque = Box<Ticket>;

    fn delivery(&self, result: &DeliveryResult<'_>, ticket: Box<Ticket>) {
        let report = result.as_ref().map(drop).map_err(|(error, message)| Failure {
            code: error.rdkafka_error_code().unwrap_or(Code::Unknown),
            has_partition: message.partition() >= 0,
        });
        // A run that was dropped hears no more.
        let _ = ticket.reports.send((ticket.index, report));
    }
}

/// What a mutex holds, whoever panicked with it.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
