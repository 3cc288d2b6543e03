//! A run under way, on a channel of its own.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use lapin::options::BasicPublishOptions;
use lapin::types::ShortString;
use lapin::{Channel, Confirmation, PublisherConfirm};
use pillarbox::BoxFuture;

use crate::link::Link;
use crate::publication::Publication;

/// Events that were handed to the client and await their confirms.
///
/// Dropped before its end, it ends the channel, so that confirms that come later concern nobody; and the connection, if
/// something was not sent: frames that wait for a channel that is closed would be sent all the same, and the server
/// would end the connection over them.
pub(crate) struct Flight<'e> {
    link: Arc<Link>,
    channel: Channel,
    legs: Vec<Leg<'e>>,
    open: usize,
    has_failed: bool,
}

enum Leg<'e> {
    Sending(BoxFuture<'e, lapin::Result<PublisherConfirm>>),
    Sent(PublisherConfirm),
    Landed,
}

/// What became of an event.
#[derive(Debug)]
pub(crate) enum Landing {
    /// It was not sent, or not all of it.
    Unsent(lapin::Error),
    /// It was sent, and the confirm will not come.
    Lost(lapin::Error),
    /// The server has answered, and the client has attached the return of some event, by its id.
    Confirmed { is_ack: bool, returned: Option<ShortString> },
}

impl<'e> Flight<'e> {
    /// Nothing is sent before the first [`landings`](Self::landings).
    pub(crate) fn new(link: Arc<Link>, channel: Channel, publications: Vec<Publication<'e>>) -> Self {
        let legs: Vec<Leg<'e>> = publications
            .into_iter()
            .map(|publication| Leg::Sending(Box::pin(send(channel.clone(), publication))))
            .collect();
        Self { open: legs.len(), link, channel, legs, has_failed: false }
    }

    /// Whether every event has landed.
    pub(crate) fn is_over(&self) -> bool {
        self.open == 0
    }

    /// Whether something landed without an answer of the server.
    pub(crate) fn has_failed(&self) -> bool {
        self.has_failed
    }

    pub(crate) fn link(&self) -> &Link {
        &self.link
    }

    /// All that has landed at one moment, by the place in the flight: whatever is told later came later.
    pub(crate) async fn landings(&mut self) -> Vec<(usize, Landing)> {
        poll_fn(|context| {
            let mut landings = Vec::new();
            // Until a look finds nothing new: one event may land while the next ones are looked at.
            while self.look(context, &mut landings) {}
            if landings.is_empty() && self.open > 0 { Poll::Pending } else { Poll::Ready(landings) }
        })
        .await
    }

    /// Looks at every event once, in order; the first look sends them in that order.
    fn look(&mut self, context: &mut Context<'_>, landings: &mut Vec<(usize, Landing)>) -> bool {
        let before = landings.len();
        for (place, leg) in self.legs.iter_mut().enumerate() {
            if let Some(landing) = leg.look(context) {
                self.has_failed |= !matches!(landing, Landing::Confirmed { .. });
                landings.push((place, landing));
            }
        }
        self.open -= landings.len() - before;
        landings.len() > before
    }
}

impl Drop for Flight<'_> {
    fn drop(&mut self) {
        if self.legs.iter().any(|leg| matches!(leg, Leg::Sending(_))) {
            self.link.cut("a run was given up before all of it was sent");
        } else if self.open == 0 && !self.has_failed {
            self.link.give_back(self.channel.clone());
        }
    }
}

impl Leg<'_> {
    fn look(&mut self, context: &mut Context<'_>) -> Option<Landing> {
        if let Self::Sending(sending) = self {
            match sending.as_mut().poll(context) {
                Poll::Pending => return None,
                Poll::Ready(Ok(confirm)) => *self = Self::Sent(confirm),
                Poll::Ready(Err(error)) => {
                    *self = Self::Landed;
                    return Some(Landing::Unsent(error));
                }
            }
        }
        let Self::Sent(confirm) = self else { return None };
        let Poll::Ready(confirmed) = Pin::new(confirm).poll(context) else { return None };
        *self = Self::Landed;
        Some(match confirmed {
            Ok(confirmation) => landing_of(confirmation),
            Err(error) => Landing::Lost(error),
        })
    }
}

/// Without confirms nothing would be promised, so an answer that says that none was asked for is no acknowledgement.
fn landing_of(confirmation: Confirmation) -> Landing {
    let is_ack = confirmation.is_ack();
    let message = confirmation.take_message();
    Landing::Confirmed {
        is_ack,
        returned: message.and_then(|message| message.delivery.properties.message_id().clone()),
    }
}

async fn send(channel: Channel, publication: Publication<'_>) -> lapin::Result<PublisherConfirm> {
    let mandatory = BasicPublishOptions { mandatory: true, ..BasicPublishOptions::default() };
    let Publication { exchange, routing_key, properties, body, .. } = publication;
    channel.basic_publish(exchange, routing_key, mandatory, &body, properties).await
}
