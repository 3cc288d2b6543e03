//! Publishes runs to JetStream.

use std::collections::HashSet;
use std::fmt;

use async_nats::jetstream::context::{PublishError, PublishErrorKind};
use async_nats::jetstream::publish::PublishAck;
use futures_util::future::BoxFuture as Waiting;
use futures_util::stream::{FuturesUnordered, StreamExt};
use pillarbox::{BoxFuture, Run, Sink, SinkError};

use crate::connection::{Connection, Slot};
use crate::homeless::Homeless;
use crate::options::NatsOptions;
use crate::publication::Publication;
use crate::verdict;

/// Publishes events to NATS JetStream.
///
/// An event is acknowledged when its stream has stored it. Its id and the subject are the `Nats-Msg-Id`, by which the stream
/// recognises an event that comes again within its duplicate window. The connection is made with the first run, and anew
/// with the next one when it was lost.
pub struct NatsSink {
    pub(crate) options: NatsOptions,
    pub(crate) slot: Slot,
}

impl NatsSink {
    /// A sink that connects when it is first used.
    pub fn new(options: NatsOptions) -> Self {
        Self { options, slot: Slot::empty() }
    }

    async fn publish_run(&self, run: &Run) {
        let connection = match self.slot.connection(&self.options).await {
            Ok(connection) => connection,
            Err(error) => return run.answer_rest(&Err(error)),
        };
        let mut flight = Flight::new(run, &connection);
        for (index, delivery) in run.deliveries().iter().enumerate() {
            let template = run.address(index).unwrap_or(&self.options.subject);
            let max_payload = connection.max_payload();
            match Publication::of(delivery, template, &self.options.messages, max_payload) {
                Ok(publication) => {
                    flight.make_room(publication.size, &self.options).await;
                    if !flight.send(index, publication).await {
                        break;
                    }
                }
                Err(error) => flight.fail(index, error),
            }
        }
        flight.land().await;
        let Flight { homeless, is_doubtful, .. } = flight;
        // A stream that was deleted is made anew with the next connection.
        if is_doubtful || (!homeless.is_empty() && self.options.new_stream.is_some()) {
            self.slot.forget(&connection).await;
        }
        homeless.answer(run, &self.options, &connection).await;
    }
}

impl Sink for NatsSink {
    fn publish<'a>(&'a self, run: &'a Run) -> BoxFuture<'a, ()> {
        Box::pin(self.publish_run(run))
    }
}

impl fmt::Debug for NatsSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NatsSink").field("options", &self.options).finish_non_exhaustive()
    }
}

/// What of a run is on its way.
struct Flight<'r> {
    run: &'r Run,
    connection: &'r Connection,
    waiting: FuturesUnordered<Waiting<'static, Landed>>,
    bytes: usize,
    /// Keys of events that have failed: what follows them in the run is left for later.
    failed: HashSet<&'r str>,
    homeless: Homeless,
    /// Whether acknowledgements stayed away, so that the connection is better made anew.
    is_doubtful: bool,
}

/// What has come back for an event.
struct Landed {
    index: usize,
    subject: String,
    size: usize,
    answer: Result<PublishAck, PublishError>,
}

impl<'r> Flight<'r> {
    fn new(run: &'r Run, connection: &'r Connection) -> Self {
        let (waiting, failed, homeless) = (FuturesUnordered::new(), HashSet::new(), Homeless::default());
        Self { run, connection, waiting, bytes: 0, failed, homeless, is_doubtful: false }
    }

    /// Waits until one more message of `size` may be on its way.
    async fn make_room(&mut self, size: usize, options: &NatsOptions) {
        while self.waiting.len() >= options.max_events || self.bytes + size > options.max_bytes {
            match self.waiting.next().await {
                Some(landed) => self.landed(landed),
                None => return,
            }
        }
    }

    /// Hands an event to the connection, answering others meanwhile. If the connection does not take it, nothing more of
    /// the run is sent, for a later event must not overtake it.
    async fn send(&mut self, index: usize, publication: Publication) -> bool {
        if self.run.deliveries()[index].key().is_some_and(|key| self.failed.contains(key)) {
            let error = SinkError::not_sent("an earlier event of its key has failed in this run");
            self.run.answer(index, Err(error));
            return true;
        }
        let Publication { subject, message, size } = publication;
        let jetstream = &self.connection.jetstream;
        let mut sending = std::pin::pin!(jetstream.send_publish(subject.clone(), message));
        let sent = loop {
            tokio::select! {
                biased;
                sent = &mut sending => break sent,
                Some(landed) = self.waiting.next() => self.landed(landed),
            }
        };
        match sent {
            Ok(ack) => {
                self.bytes += size;
                self.waiting
                    .push(Box::pin(async move { Landed { index, subject, size, answer: ack.await } }));
                true
            }
            Err(error) => {
                self.is_doubtful = true;
                let error = verdict::not_sent(&error);
                for index in index..self.run.deliveries().len() {
                    self.run.answer(index, Err(error.clone()));
                }
                false
            }
        }
    }

    /// Waits for all that is on its way.
    async fn land(&mut self) {
        while let Some(landed) = self.waiting.next().await {
            self.landed(landed);
        }
    }

    fn landed(&mut self, Landed { index, subject, size, answer }: Landed) {
        self.bytes -= size;
        let error = match answer {
            // One that the stream has already is acknowledged like any other.
            Ok(_) => return self.run.answer(index, Ok(())),
            Err(error) => error,
        };
        if error.kind() == PublishErrorKind::StreamNotFound {
            self.failed.extend(self.run.deliveries()[index].key());
            return self.homeless.add(subject, index);
        }
        self.is_doubtful |= matches!(error.kind(), PublishErrorKind::TimedOut | PublishErrorKind::BrokenPipe);
        let complaint = self.connection.complaint();
        self.fail(index, verdict::silence(&subject, &error, complaint.as_deref()));
    }

    fn fail(&mut self, index: usize, error: SinkError) {
        self.failed.extend(self.run.deliveries()[index].key());
        self.run.answer(index, Err(error));
    }
}
