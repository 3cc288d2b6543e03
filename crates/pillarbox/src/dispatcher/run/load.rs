//! What one sink gets of a run.

use std::fmt::Display;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use tracing::{Instrument, Span};

use super::parcel::Parcel;
use crate::destination::{Destination, SinkSet};
use crate::dispatcher::CatchPanic;
use crate::sink::{Answer, Answers, Run};
use crate::trace;

/// What one sink gets of a run.
pub(super) struct Share {
    /// Which of the route's sinks it is.
    pub(super) leg: usize,
    /// The places of its events in the whole run.
    places: Vec<usize>,
    pub(super) run: Run,
    answers: Answers,
}

impl Share {
    /// The share of one of the sinks; none if nothing is due there.
    pub(super) fn of(set: &SinkSet, leg: usize, parcels: &[Option<Parcel>]) -> Option<Self> {
        let to = &set.legs[leg];
        let due = parcels.iter().enumerate().filter_map(|(place, parcel)| {
            let parcel = parcel.as_ref()?;
            let (_, failures) = *parcel.due.iter().find(|(of, _)| *of == leg)?;
            let delivery = match set.is_tracked {
                true => parcel.item.delivery.to_handler(&to.id, failures.saturating_add(1)),
                false => parcel.item.delivery.clone(),
            };
            Some((place, delivery))
        });
        let (places, deliveries): (Vec<usize>, Vec<_>) = due.unzip();
        if places.is_empty() {
            return None;
        }
        let (mut run, answers) = Run::new(deliveries);
        if to.address.is_some() {
            run = run.with_addresses(vec![to.address.clone(); places.len()]);
        }
        Some(Self { leg, places, run, answers })
    }
}

/// A share on its way.
pub(super) struct Load<'a> {
    pub(super) leg: usize,
    pub(super) places: &'a [usize],
    pub(super) answers: &'a mut Answers,
    publish: Option<CatchPanic<'a, ()>>,
    /// The spans of all events, if they have any.
    spans: Vec<Span>,
    /// How many events the sink had acknowledged when it began.
    acknowledged: u64,
}

impl<'a> Load<'a> {
    pub(super) fn begin(share: &'a mut Share, to: &'a Destination, span: Span, spans: Vec<Span>) -> Self {
        let Share { leg, places, run, answers } = share;
        let (run, sink, acknowledged) = (&*run, &*to.sink, to.so_far());
        // In an async block, so that a panic before its first await is caught as well.
        let publish = async move { sink.publish(run).await }.instrument(span);
        Self { leg: *leg, places, answers, publish: Some(CatchPanic(Box::pin(publish))), spans, acknowledged }
    }

    /// Whether all that is known speaks against the sink: several events were sent to it, and since then it has
    /// acknowledged none.
    pub(super) fn tells_of_the_sink(&self, to: &Destination) -> bool {
        self.places.len() > 1 && to.so_far() == self.acknowledged
    }

    /// Ends the span of an event, with why it failed, if it did.
    pub(super) fn end_span(&mut self, index: usize, error: Option<&dyn Display>) {
        let Some(span) = self.spans.get_mut(index) else { return };
        let span = std::mem::replace(span, Span::none());
        if let Some(error) = error {
            trace::failed(&span, error);
        }
    }
}

/// What has come of a load.
pub(super) enum News {
    /// A sink has answered an event.
    Answer(usize, Answer),
    /// A sink is through, or has panicked.
    Ended(usize, Result<(), String>),
}

/// The next news of any load: answers before ends, and the loads in their order.
pub(super) fn poll(loads: &mut [Load<'_>], cx: &mut Context<'_>) -> Poll<News> {
    for (number, load) in loads.iter_mut().enumerate() {
        if let Poll::Ready(Some(answer)) = load.answers.poll_next(cx) {
            return Poll::Ready(News::Answer(number, answer));
        }
    }
    for (number, load) in loads.iter_mut().enumerate() {
        let Some(publish) = &mut load.publish else { continue };
        if let Poll::Ready(ended) = Pin::new(publish).poll(cx) {
            load.publish = None;
            return Poll::Ready(News::Ended(number, ended));
        }
    }
    Poll::Pending
}
