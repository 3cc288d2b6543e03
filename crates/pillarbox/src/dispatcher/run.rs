//! A run of events to the sinks of their route, to all of them at the same time.

mod load;
mod parcel;

use std::fmt::Display;
use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use self::load::{Load, News, Share};
use self::parcel::Parcel;
use super::{CatchPanic, Dispatcher, Item, shown};
use crate::destination::{Doubt, Health, Leg, SinkSet};
use crate::sink::{Answer, SinkErrorKind};
use crate::store::{Lease, Outcome};
use crate::trace::CUT_OFF;
use crate::{ListenerError, SinkError};

/// A run under way.
struct Open<'a> {
    set: &'a SinkSet,
    /// Its events; none where one is settled already.
    parcels: Vec<Option<Parcel>>,
    /// How many are not.
    left: usize,
    /// When the time of the delivery is over, by the local clock.
    end: Duration,
}

impl Open<'_> {
    /// Takes out an event of which no sink owes an answer any more.
    fn take_answered(&mut self, place: usize) -> Option<Parcel> {
        let parcel = self.parcels[place].take_if(|parcel| parcel.due.is_empty())?;
        self.left -= 1;
        Some(parcel)
    }
}

/// How a run ended for events that have no answer.
enum End {
    /// All are answered.
    Through,
    /// The time of a delivery is over.
    OutOfTime,
    /// The shutdown came first, or the end of the lease.
    CutOff,
}

impl Dispatcher {
    /// A run of events to their sinks, each settled as soon as all of these have answered.
    pub(super) async fn deliver_run(&self, set: &Arc<SinkSet>, items: Vec<Item>) {
        // Interceptors and sinks share the time of one delivery, for the leases last no longer.
        let end = self.runtime.clock.now() + self.config.delivery_timeout;
        let parcels = self.parcels(set, items).await;
        let mut open = Open { set, left: parcels.iter().flatten().count(), parcels, end };
        self.pass_breakers(&mut open).await;
        self.pass_interceptors(&mut open).await;
        let mut shares: Vec<Share> =
            (0..set.legs.len()).filter_map(|leg| Share::of(set, leg, &open.parcels)).collect();
        let mut loads: Vec<Load<'_>> = shares
            .iter_mut()
            .map(|share| {
                let (span, spans) = self.traces.run(share.run.deliveries().iter());
                Load::begin(share, &set.legs[share.leg].destination, span, spans)
            })
            .collect();

        let ended = self.publish(&mut loads, &mut open).await;
        self.unanswered(&mut loads, open, ended).await;
    }

    /// Takes in answers until every event is settled, or until it ends some other way.
    async fn publish(&self, loads: &mut [Load<'_>], open: &mut Open<'_>) -> End {
        let lease = open.parcels.iter().flatten().next().map(|parcel| parcel.item.lease);
        let mut tenure_ended = std::pin::pin!(async {
            match lease {
                Some(lease) => self.tenure_ended(lease).await,
                None => std::future::pending().await,
            }
        });
        let mut out_of_time = self.runtime.clock.sleep(self.left_until(open.end));
        while open.left > 0 {
            tokio::select! {
                biased;
                news = poll_fn(|cx| load::poll(loads, cx)) => match news {
                    News::Answer(load, answer) => self.answered(&mut loads[load], open, answer).await,
                    News::Ended(load, ended) => self.ended(&mut loads[load], open, ended).await,
                },
                () = self.shutdown.over() => return End::CutOff,
                () = &mut tenure_ended => return End::CutOff,
                () = &mut out_of_time => return End::OutOfTime,
            }
        }
        End::Through
    }

    /// Holds back what the breakers of its sinks do not let through; an event that waits for all of its sinks is settled.
    async fn pass_breakers(&self, open: &mut Open<'_>) {
        let now = self.runtime.clock.now();
        for (leg, to) in open.set.legs.iter().enumerate() {
            let wanted = open.parcels.iter().flatten().filter(|parcel| parcel.is_due(leg)).count();
            let admitted = to.destination.breaker.admit(now, wanted);
            let due = open.parcels.iter_mut().flatten().filter(|parcel| parcel.is_due(leg));
            for parcel in due.skip(admitted.events) {
                let due_for = self.parcel_due_for(parcel);
                if self.is_read_later(parcel.item.lease) {
                    parcel.give_back(leg, due_for);
                } else {
                    let reason = format!("breaker: sink `{}` is down", to.id);
                    parcel.wait(leg, admitted.wait, due_for, reason);
                }
            }
        }
        self.settle_idle(open).await;
    }

    /// Settles events of which nothing is to be sent now.
    async fn settle_idle(&self, open: &mut Open<'_>) {
        for place in 0..open.parcels.len() {
            if let Some(parcel) = open.take_answered(place) {
                self.settle_parcel(open.set, parcel).await;
            }
        }
    }

    /// Runs the interceptors before each event, and takes out of the run what they refuse.
    async fn pass_interceptors(&self, open: &mut Open<'_>) {
        if self.interceptors.is_empty() {
            return;
        }
        for place in 0..open.parcels.len() {
            let Some(parcel) = &mut open.parcels[place] else { continue };
            let Err(refused) = self.asked(&parcel.item, open.end).await else { continue };
            for (leg, failures) in std::mem::take(&mut parcel.due) {
                open.set.legs[leg].destination.breaker.answered();
                match &refused {
                    Some(error) => self.refuse(open.set, parcel, leg, failures, error),
                    None => parcel.is_given_back = true,
                }
            }
            if let Some(error) = refused {
                self.after(&parcel.item.delivery, Some(&shown(&error)), open.end).await;
            }
            if let Some(parcel) = open.take_answered(place) {
                self.settle_parcel(open.set, parcel).await;
            }
        }
    }

    /// Whether interceptors let an event pass; without an error it was too late to ask them.
    async fn asked(&self, item: &Item, end: Duration) -> Result<(), Option<ListenerError>> {
        let limit = self.left_until(end);
        if limit.is_zero() {
            return Err(None);
        }
        let hooks = CatchPanic(Box::pin(self.before(&item.delivery)));
        let hooked = tokio::select! {
            biased;
            hooked = self.runtime.timeout(limit, hooks) => hooked,
            () = self.shutdown.over() => return Err(None),
        };
        match hooked {
            Some(Ok(Ok(()))) => Ok(()),
            Some(Ok(Err(error))) => Err(Some(error)),
            Some(Err(panic)) => Err(Some(ListenerError::new(format!("an interceptor panicked: {panic}")))),
            None => Err(Some(ListenerError::new(format!("an interceptor did not answer within {limit:?}")))),
        }
    }

    /// A sink has answered one of its events.
    async fn answered(&self, load: &mut Load<'_>, open: &mut Open<'_>, (index, answer): Answer) {
        let place = load.places[index];
        let Some(parcel) = &mut open.parcels[place] else { return };
        let Some(failures) = parcel.no_longer_due(load.leg) else { return };
        load.end_span(index, answer.as_ref().err().map(|error| error as &dyn Display));
        let (destination, seq) = (&*open.set.legs[load.leg].destination, parcel.item.lease.seq);
        match answer {
            Ok(()) => {
                destination.trust(seq);
                if destination.acknowledged(self.runtime.clock.now()) {
                    tracing::info!(sink = &*open.set.legs[load.leg].id, "the sink is well again");
                }
                parcel.progress.succeed(load.leg);
            }
            Err(error) if error.kind() == SinkErrorKind::NotSent => {
                destination.breaker.answered();
                parcel.progress.postpone(load.leg, failures, self.parcel_due_for(parcel));
                parcel.is_given_back = true;
            }
            Err(error) if error.kind() == SinkErrorKind::Rejected => {
                destination.trust(seq);
                destination.breaker.answered();
                self.refuse(open.set, parcel, load.leg, failures, &error.into_failure());
            }
            Err(error) => self.not_reached(load, open.set, parcel, failures, &error),
        }
        self.settle_if_answered(open, place).await;
    }

    /// A sink was down when it was to get an event, or left it unanswered.
    fn not_reached(
        &self,
        load: &Load<'_>,
        set: &SinkSet,
        parcel: &mut Parcel,
        failures: u32,
        error: &SinkError,
    ) {
        let (destination, seq) = (&*set.legs[load.leg].destination, parcel.item.lease.seq);
        let (is_unanswered, is_alone) = (error.kind() == SinkErrorKind::Unknown, load.places.len() == 1);
        if is_unanswered {
            self.meter.leave_unanswered();
        }
        // In company it says nothing about one event that all find the sink down.
        let doubt = match is_unanswered || is_alone {
            true => destination.doubt(seq, is_alone),
            false => Doubt::default(),
        };
        if is_unanswered && doubt.alone_while_others_passed >= Doubt::MOST {
            destination.trust(seq);
            destination.breaker.answered();
            let text = format!("{error}; alone so for {} times, while others passed", Doubt::MOST);
            let rejection = SinkError::rejected(text).into_failure();
            return self.refuse(set, parcel, load.leg, failures, &rejection);
        }
        let pause = self.pause(&set.legs[load.leg], doubt, error);
        let goes_back = load.tells_of_the_sink(destination) && self.is_read_later(parcel.item.lease);
        let wait = if goes_back { Duration::ZERO } else { pause };
        let after = self.parcel_due_for(parcel).saturating_add(wait);
        parcel.blame(set, load.leg, error, false);
        parcel.progress.postpone(load.leg, failures, after);
        parcel.is_given_back |= goes_back;
    }

    async fn settle_if_answered(&self, open: &mut Open<'_>, place: usize) {
        let Some(parcel) = open.take_answered(place) else { return };
        self.after(&parcel.item.delivery, parcel.error(), open.end).await;
        self.settle_parcel(open.set, parcel).await;
    }

    /// An event was refused by a sink, or by an interceptor on its way there.
    fn refuse(&self, set: &SinkSet, parcel: &mut Parcel, leg: usize, failures: u32, error: &ListenerError) {
        let outcome = self.after_failure(&*self.retry, failures, error);
        let in_all = failures.saturating_add(u32::from(outcome.spends()));
        parcel.blame(set, leg, error, outcome.spends());
        match outcome {
            Outcome::Retry { after, .. } => {
                let after = self.parcel_due_for(parcel).saturating_add(after);
                parcel.progress.postpone(leg, in_all, after);
            }
            _ => parcel.progress.give_up(leg, in_all),
        }
    }

    /// How long an event waits whose sink is down, or did not answer. One that is itself to blame leaves the breaker as it
    /// is; alone and unanswered again and again it waits for longer, so that others are tried first.
    fn pause(&self, Leg { id, destination, .. }: &Leg, doubt: Doubt, error: &SinkError) -> Duration {
        let asked = error.asked_delay().unwrap_or_default();
        let own = match doubt.alone {
            0 => Duration::ZERO,
            alone => self.config.sink_pauses().after(alone, self.runtime.fraction()),
        };
        if doubt.is_of_the_event() {
            destination.breaker.answered();
            return own.max(asked);
        }
        let (now, random) = (self.runtime.clock.now(), self.runtime.fraction());
        if destination.breaker.health() == Health::Well {
            tracing::warn!(sink = &**id, %error, "the sink is down; its events wait, and it is tried again");
        }
        destination.note_error(shown(error));
        destination.breaker.tripped(now, self.config.sink_pauses(), asked, random).max(own)
    }

    /// Whether an event that goes back as it was is read again when it is worth it: it is from an owned partition, and no
    /// destination lets anything through, so that none is read for now. Set aside it would hold back its key, and what is
    /// aside is read key by key.
    fn is_read_later(&self, lease: Lease) -> bool {
        lease.token.partition().is_some() && self.destinations.room(self.runtime.clock.now()).events == 0
    }

    /// A sink is through with its run: what it has not answered may have arrived, and is tried again alone, so that the one
    /// over which it stumbles holds up no other. If it panics over one alone, that one failed.
    async fn ended(&self, load: &mut Load<'_>, open: &mut Open<'_>, ended: Result<(), String>) {
        while let Some(answer) = load.answers.waiting() {
            self.answered(load, open, answer).await;
        }
        let error = match ended {
            Ok(()) => SinkError::unknown("the sink did not answer for this event"),
            Err(panic) if load.places.len() == 1 => {
                SinkError::rejected(format!("the sink panicked: {panic}"))
            }
            Err(panic) => SinkError::unknown(format!("the sink panicked: {panic}")),
        };
        for index in 0..load.places.len() {
            self.answered(load, open, (index, Err(error.clone()))).await;
        }
    }

    /// What becomes of events that have no answer when the run is over.
    async fn unanswered(&self, loads: &mut [Load<'_>], mut open: Open<'_>, ended: End) {
        for load in loads.iter_mut() {
            // Answers that came together with the end still count.
            while let Some(answer) = load.answers.waiting() {
                self.answered(load, &mut open, answer).await;
            }
            if matches!(ended, End::OutOfTime) {
                let limit = self.config.delivery_timeout;
                let error = SinkError::unknown(format!("the sink did not answer within {limit:?}"));
                for index in 0..load.places.len() {
                    self.answered(load, &mut open, (index, Err(error.clone()))).await;
                }
            }
            for index in 0..load.places.len() {
                load.end_span(index, Some(&CUT_OFF));
            }
        }
        for mut parcel in open.parcels.into_iter().flatten() {
            for (leg, _) in &parcel.due {
                open.set.legs[*leg].destination.breaker.answered();
            }
            parcel.is_given_back = true;
            self.settle_parcel(open.set, parcel).await;
        }
    }
}
