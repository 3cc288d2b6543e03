//! What is answered for events that were sent.

use std::collections::HashSet;
use std::time::Duration;

use lapin::protocol::{AMQPErrorKind, AMQPSoftError};
use lapin::types::ShortString;
use lapin::{Error, ErrorKind};
use pillarbox::{Run, SinkError};
use tracing::warn;

use crate::fault::{BLOCKED, no_exchange, shown};
use crate::flight::{Flight, Landing};
use crate::publication::Publication;
use crate::returns::{Confirm, Returns};

/// How often a run that waits for confirms looks whether the server takes events at all.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Answers the events of a flight as they land.
pub(crate) struct Arrivals<'r> {
    run: &'r Run,
    sent: Vec<Sent<'r>>,
    has_one_exchange: bool,
}

/// An event of the flight.
struct Sent<'r> {
    index: usize,
    event_id: &'r str,
    exchange: ShortString,
    routing_key: ShortString,
}

impl<'r> Arrivals<'r> {
    pub(crate) fn new(run: &'r Run, publications: &[Publication<'r>], has_one_exchange: bool) -> Self {
        let sent = |publication: &Publication<'r>| Sent {
            index: publication.index,
            event_id: publication.event_id,
            exchange: publication.exchange.clone(),
            routing_key: publication.routing_key.clone(),
        };
        Self { run, sent: publications.iter().map(sent).collect(), has_one_exchange }
    }

    /// Answers until every event of the flight has landed.
    pub(crate) async fn of(self, mut flight: Flight<'_>) {
        let (mut returns, mut nacked) = (Returns::new(), HashSet::new());
        let mut look = tokio::time::interval(LOOK_EVERY);
        while !flight.is_over() {
            let landings = tokio::select! {
                biased;
                landings = flight.landings() => landings,
                _ = look.tick() => {
                    if flight.link().is_blocked() {
                        flight.link().cut(BLOCKED);
                    }
                    continue;
                }
            };
            let mut confirms = Vec::with_capacity(landings.len());
            for (place, landing) in landings {
                match landing {
                    Landing::Unsent(error) => self.unsent(place, &flight, &error),
                    Landing::Lost(error) => self.lost(place, &flight, &error),
                    Landing::Confirmed { is_ack, returned } => {
                        if !is_ack {
                            nacked.insert(place);
                        }
                        let event_id = self.sent[place].event_id.to_owned();
                        let returned = returned.map(String::from);
                        confirms.push(Confirm { index: place, event_id, returned });
                    }
                }
            }
            for (place, was_returned) in returns.confirmed(confirms, flight.is_over() && !flight.has_failed())
            {
                self.confirmed(place, was_returned, nacked.contains(&place));
            }
        }
        for place in returns.into_uncertain() {
            let text = "the connection was lost before it was certain whether a queue took it";
            self.answer(place, Err(SinkError::unknown(text)));
        }
    }

    fn confirmed(&self, place: usize, was_returned: bool, was_nacked: bool) {
        let Sent { exchange, routing_key, .. } = &self.sent[place];
        // A binding may be made, or made again, at any time: that is why it is not for good.
        let answer = if was_returned && exchange.as_str().is_empty() {
            Err(SinkError::rejected(format!(
                "there is no queue `{routing_key}`; declare it, or correct the routing key"
            )))
        } else if was_returned {
            Err(SinkError::rejected(format!(
                "exchange `{exchange}` routes `{routing_key}` to no queue; bind a queue to it for that routing key"
            )))
        } else if was_nacked {
            // Of several queues some may have taken it.
            Err(SinkError::unknown(format!(
                "RabbitMQ could not put it into every queue for `{routing_key}`: one is full and set to \
                 `reject-publish`, or has failed"
            )))
        } else {
            Ok(())
        };
        self.answer(place, answer);
    }

    fn unsent(&self, place: usize, flight: &Flight<'_>, error: &Error) {
        let why = flight.link().why_cut().map_or_else(|| shown(error), str::to_owned);
        self.answer(place, Err(SinkError::unavailable(format!("it was not sent: {why}"))));
    }

    fn lost(&self, place: usize, flight: &Flight<'_>, error: &Error) {
        let unknown = |why: &str| Err(SinkError::unknown(format!("it was sent, and not confirmed: {why}")));
        if let Some(why) = flight.link().why_cut() {
            return self.answer(place, unknown(why));
        }
        let ErrorKind::ProtocolError(refusal) = error.kind() else {
            return self.answer(place, unknown(&shown(error)));
        };
        let AMQPErrorKind::Soft(code) = refusal.kind() else {
            return self.answer(place, unknown(&shown(error)));
        };
        flight.link().forget_exchanges();
        if self.sent.len() == 1 {
            return self.answer(place, Err(self.refused(place, code, &shown(error))));
        }
        if self.concerns_all(code, &shown(error)) {
            return self.answer(place, unknown(&shown(error)));
        }
        // The server closed the channel over one of them and does not say which. Without an answer each comes again
        // alone, and then it is certain.
        warn!(
            event_id = self.sent[place].event_id,
            error = shown(error),
            "RabbitMQ closed the channel of a run"
        );
    }

    /// Why the server refused the only event of a flight.
    fn refused(&self, place: usize, code: &AMQPSoftError, why: &str) -> SinkError {
        let text = match code {
            AMQPSoftError::NOTFOUND => no_exchange(self.sent[place].exchange.as_str(), why),
            AMQPSoftError::ACCESSREFUSED => {
                format!("RabbitMQ refused it: {why}; give the user the permission to write there")
            }
            _ => format!("RabbitMQ refused it: {why}"),
        };
        match code {
            _ if self.concerns_all(code, why) => SinkError::unavailable(text),
            // Its size or its headers, which stay what they are.
            AMQPSoftError::PRECONDITIONFAILED => SinkError::rejected(text).for_good(),
            _ => SinkError::rejected(text),
        }
    }

    /// Whether the server would refuse any event: the one exchange is gone, or closed to this user. The permission to
    /// write to topics depends on the routing key.
    fn concerns_all(&self, code: &AMQPSoftError, why: &str) -> bool {
        let is_general = match code {
            AMQPSoftError::NOTFOUND => true,
            AMQPSoftError::ACCESSREFUSED => !why.contains("access to topic"),
            _ => false,
        };
        is_general && self.has_one_exchange
    }

    fn answer(&self, place: usize, answer: Result<(), SinkError>) {
        self.run.answer(self.sent[place].index, answer);
    }
}
