//! Publishes runs to RabbitMQ.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fmt;

use lapin::types::ShortString;
use pillarbox::{BoxFuture, Event, Run, Sink, SinkError};

use crate::RabbitMqOptions;
use crate::arrivals::Arrivals;
use crate::fault::{BLOCKED, FaultKind, no_exchange};
use crate::flight::Flight;
use crate::link::{Link, Links};
use crate::publication::{Publication, filled, properties};

/// Publishes events to RabbitMQ, with confirms, persistent and mandatory: what is acknowledged is in every queue that
/// its exchange routes it to, and there is at least one.
///
/// It connects when the first run comes, and anew when the connection is lost. All runs share one connection, and each
/// has a channel of its own.
pub struct RabbitMqSink {
    pub(crate) options: RabbitMqOptions,
    pub(crate) links: Links,
}

impl RabbitMqSink {
    /// A sink that has not connected yet.
    pub fn new(options: RabbitMqOptions) -> Self {
        Self { links: Links::new(&options), options }
    }

    /// Publishes a run. An error is the answer to all that have none yet.
    async fn publish_run(&self, run: &Run) -> Result<(), SinkError> {
        let mut gate = Gate { run, refused: HashSet::new() };
        let events = run.deliveries().iter().enumerate();
        let publications: Vec<_> = events
            .filter_map(|(index, event)| {
                gate.admit(index, event.key(), || self.publication(run, index, event))
            })
            .collect();
        if publications.is_empty() {
            return Ok(());
        }
        let link = self.links.current().await.map_err(|fault| fault.unavailable())?;
        if link.is_blocked() {
            return Err(SinkError::unavailable(BLOCKED));
        }
        let publications = self.deliverable(&mut gate, &link, publications).await?;
        if publications.is_empty() {
            return Ok(());
        }
        let channel = link.channel().await.map_err(|fault| fault.unavailable())?;
        let arrivals = Arrivals::new(run, &publications, self.has_one_exchange());
        arrivals.of(Flight::new(link, channel, publications)).await;
        Ok(())
    }

    fn publication<'r>(
        &'r self,
        run: &Run,
        index: usize,
        event: &'r Event,
    ) -> Result<Publication<'r>, SinkError> {
        let message = self.options.messages.of(event).map_err(|error| {
            SinkError::rejected(format!("{error}; send events of its type in binary mode")).for_good()
        })?;
        let exchange = self.options.exchange.as_ref().map(|template| filled("exchange", template, event));
        let routing_key = run.address(index).unwrap_or(&self.options.routing_key);
        Ok(Publication {
            index,
            event_id: event.id(),
            key: event.key(),
            exchange: exchange.transpose()?.unwrap_or_default(),
            routing_key: filled("routing key", routing_key, event)?,
            properties: properties(event, &message)?,
            body: message.body,
        })
    }

    /// Those that the connection can carry, and whose exchanges exist: an event to one that does not would close the
    /// channel, and with it the confirms of all others would be lost.
    async fn deliverable<'e>(
        &self,
        gate: &mut Gate<'_, 'e>,
        link: &Link,
        publications: Vec<Publication<'e>>,
    ) -> Result<Vec<Publication<'e>>, SinkError> {
        let exchanges: BTreeSet<ShortString> =
            publications.iter().map(|publication| publication.exchange.clone()).collect();
        let mut missing = BTreeMap::new();
        for exchange in exchanges {
            let Err(fault) = link.find_exchange(&exchange).await else { continue };
            if fault.kind == FaultKind::Away {
                return Err(fault.unavailable());
            }
            let text = no_exchange(exchange.as_str(), &fault.text);
            // Where all events go to the same exchange, its absence says nothing about an event.
            if self.has_one_exchange() {
                return Err(SinkError::unavailable(text));
            }
            missing.insert(exchange, text);
        }
        let frame_max = link.frame_max();
        let verdict = |publication: &Publication<'_>| match missing.get(&publication.exchange) {
            Some(text) => Err(SinkError::rejected(text.clone())),
            None => publication.fits(frame_max),
        };
        let admit = |publication: Publication<'e>| {
            gate.admit(publication.index, publication.key, || verdict(&publication).map(|()| publication))
        };
        Ok(publications.into_iter().filter_map(admit).collect())
    }

    /// Whether all events go to one exchange.
    fn has_one_exchange(&self) -> bool {
        self.options.exchange.as_ref().is_none_or(|template| template.as_constant().is_some())
    }
}

impl Sink for RabbitMqSink {
    fn publish<'a>(&'a self, run: &'a Run) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            if let Err(error) = self.publish_run(run).await {
                run.answer_rest(&Err(error));
            }
        })
    }
}

impl fmt::Debug for RabbitMqSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RabbitMqSink").field(&self.options).finish()
    }
}

/// Keeps back what follows a refused event in its key: it would overtake it.
struct Gate<'r, 'e> {
    run: &'r Run,
    /// The keys of events that were refused.
    refused: HashSet<&'e str>,
}

impl<'e> Gate<'_, 'e> {
    /// What may be sent; for all else there is an answer.
    fn admit<T>(
        &mut self,
        index: usize,
        key: Option<&'e str>,
        verdict: impl FnOnce() -> Result<T, SinkError>,
    ) -> Option<T> {
        let is_behind = key.is_some_and(|key| self.refused.contains(key));
        let verdict = match is_behind {
            true => Err(SinkError::not_sent("an earlier event of its key was refused")),
            false => verdict(),
        };
        match verdict {
            Ok(admitted) => Some(admitted),
            Err(error) => {
                self.refused.extend(key);
                self.run.answer(index, Err(error));
                None
            }
        }
    }
}
