//! Where each handler stands with each event, kept beside the store by much simpler rules; named sinks are tracked as
//! handlers are.

use std::collections::{BTreeMap, BTreeSet};

use pillarbox::store::{Outcome, Settlement, Token};

use super::application::Kind;
use super::handlers::has_fallback;
use super::sinks::receivers_of;

/// The handlers of all events.
#[derive(Clone, Default)]
pub(super) struct Standings {
    events: BTreeMap<String, Tracked>,
    /// How often something was taken or recorded.
    steps: u64,
    /// Since which step each process knows that a route is paused.
    paused: BTreeMap<(u32, String), u64>,
}

/// The handlers of one event.
#[derive(Clone)]
struct Tracked {
    standings: Vec<Standing>,
    /// Who is, or may be, busy with it.
    flights: BTreeMap<u32, Flight>,
}

/// Where one handler stands.
#[derive(Clone, Default)]
struct Standing {
    handler: &'static str,
    /// How often it has begun.
    runs: u64,
    /// The processes that it, or its fallback, has succeeded in.
    succeeded_in: BTreeSet<u32>,
    /// Those of them that may have forgotten it: it was recorded, and a failover took that back.
    excused: BTreeSet<u32>,
    has_succeeded: bool,
    /// The processes that it was given up in since the last replay, with its fallback.
    died_in: BTreeSet<u32>,
    /// The process in which it has failed for good, and which may run its fallback.
    failed_in: Option<u32>,
    /// Since which step its success is recorded.
    recorded: Option<u64>,
    is_recorded_dead: bool,
}

/// An event in the hands of a process.
#[derive(Clone, Default)]
struct Flight {
    /// How it was taken since the process has last told what became of it.
    takes: Vec<Taking>,
    /// Whether a handler has succeeded that is not recorded.
    has_success: bool,
    /// Whether a handler has failed for good in its pass, and left the last word to its fallback.
    falls_back: bool,
    /// What it had to say of the handlers and could not record.
    refused: Option<String>,
    /// Whether it has recorded that the event is dead. If the answer was lost it records that again, though an operator may
    /// have replayed the event meanwhile.
    has_died: bool,
}

/// A take of an event.
#[derive(Clone, Copy)]
struct Taking {
    token: Token,
    step: u64,
    /// Whether the process has been told of it.
    is_known: bool,
}

/// What a text says of a handler.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Said {
    Done,
    Owed,
    Dead,
    Nothing,
}

/// What a settlement did for the handlers of its event.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Recording {
    /// It says that some are done and others are not.
    pub(super) is_partial: bool,
    /// It was refused before, under another lease.
    pub(super) is_written_again: bool,
    /// Somebody has succeeded, and it does not say so.
    pub(super) gives_way: bool,
    /// Its process has said before that the event is dead, and has not read it since.
    pub(super) repeats_death: bool,
}

impl Standings {
    /// An event was taken, read or written by a process that may deliver it from now on.
    pub(super) fn taken(&mut self, process: u32, id: &str, token: Token) {
        self.steps += 1;
        let step = self.steps;
        let flight = self.event(id).flights.entry(process).or_default();
        if token.partition().is_some() {
            // Nothing of a partition is read while it is in flight, and what is left from an earlier tenure does not run.
            *flight = Flight::default();
        }
        flight.has_died = false;
        flight.takes.push(Taking { token, step, is_known: false });
    }

    /// The answer to the last take of a process has arrived.
    pub(super) fn answered(&mut self, process: u32) {
        let flights = self.events.values_mut().filter_map(|event| event.flights.get_mut(&process));
        for taking in flights.flat_map(|flight| &mut flight.takes) {
            taking.is_known = true;
        }
    }

    /// The lease of an event is gone, and its process knows it.
    pub(super) fn lost(&mut self, process: u32, id: &str, token: Token) -> bool {
        let flights = &mut self.event(id).flights;
        let is_last = |flight: &&mut Flight| flight.takes.last().is_some_and(|last| last.token == token);
        let Some(flight) = flights.get_mut(&process).filter(is_last) else { return false };
        let has_success = flight.has_success;
        flights.remove(&process);
        has_success
    }

    /// A turn of a handler, or of its fallback, begins. Says how many it had before, or what is wrong with it.
    pub(super) fn begins(
        &mut self,
        process: u32,
        id: &str,
        handler: &str,
        is_fallback: bool,
    ) -> Result<u64, String> {
        let event = self.event(id);
        let Some(taken) = event.flights.get(&process).and_then(Flight::last_known) else {
            return Err(format!("{id}: {handler} runs in {process}, which has not taken the event"));
        };
        let Some(standing) = event.standings.iter_mut().find(|standing| standing.handler == handler) else {
            return Err(format!("{id}: {handler} runs, and is none of its handlers"));
        };
        let what = if is_fallback { "the fallback of " } else { "" };
        if standing.succeeded_in.contains(&process) && !standing.excused.contains(&process) {
            return Err(format!("{id}: {what}{handler} runs in {process}, where it has succeeded"));
        }
        // What others record after the lease has passed on is not known before it is taken anew.
        if standing.recorded.is_some_and(|recorded| recorded < taken.step) {
            return Err(format!("{id}: {what}{handler} runs in {process}, which took it as done"));
        }
        if is_fallback && standing.failed_in != Some(process) {
            return Err(format!(
                "{id}: {what}{handler} runs in {process}, where that has not failed for good"
            ));
        }
        standing.failed_in = None;
        standing.runs += u64::from(!is_fallback);
        Ok(standing.runs.saturating_sub(1))
    }

    /// Whether another handler of the event is recorded as done.
    pub(super) fn spares(&mut self, id: &str, handler: &str) -> bool {
        let mut others = self.event(id).standings.iter().filter(|standing| standing.handler != handler);
        others.any(|standing| standing.recorded.is_some())
    }

    /// Whether another receiver of the event is recorded as done, which has not succeeded in this process.
    pub(super) fn is_passed_on(&mut self, process: u32, id: &str, sink: &str) -> bool {
        let mut others = self.event(id).standings.iter().filter(|standing| standing.handler != sink);
        others.any(|standing| standing.recorded.is_some() && !standing.succeeded_in.contains(&process))
    }

    /// Whether another receiver of the event has succeeded.
    pub(super) fn has_another(&mut self, id: &str, sink: &str) -> bool {
        let mut others = self.event(id).standings.iter().filter(|standing| standing.handler != sink);
        others.any(|standing| standing.has_succeeded)
    }

    /// A process has seen that a route is paused.
    pub(super) fn paused(&mut self, process: u32, route: &str) {
        self.paused.insert((process, route.to_owned()), self.steps);
    }

    /// A process has seen that a route is resumed.
    pub(super) fn resumed(&mut self, process: u32, route: &str) {
        self.paused.remove(&(process, route.to_owned()));
    }

    /// Whether a process knew that a route is paused when it read an event.
    pub(super) fn is_held(&mut self, process: u32, id: &str, route: &str) -> bool {
        let Some(paused) = self.paused.get(&(process, route.to_owned())).copied() else { return false };
        let flight = self.event(id).flights.get(&process).and_then(Flight::last_known);
        flight.is_some_and(|taken| taken.step > paused)
    }

    /// A turn has succeeded; says whether one has before.
    pub(super) fn succeeds(&mut self, process: u32, id: &str, handler: &str) -> bool {
        let event = self.event(id);
        if let Some(flight) = event.flights.get_mut(&process) {
            flight.has_success = true;
        }
        let standing = event.standing(handler);
        standing.succeeded_in.insert(process);
        standing.excused.remove(&process);
        std::mem::replace(&mut standing.has_succeeded, true)
    }

    /// A turn has failed for good. Without a fallback that is still to run, the handler is dead.
    pub(super) fn fails_for_good(&mut self, process: u32, id: &str, handler: &str, is_fallback: bool) {
        let falls_back = has_fallback(Kind::of(id)) && !is_fallback;
        let event = self.event(id);
        if let Some(flight) = event.flights.get_mut(&process) {
            flight.falls_back |= falls_back;
        }
        let standing = event.standing(handler);
        if falls_back {
            standing.failed_in = Some(process);
        } else {
            standing.died_in.insert(process);
        }
    }

    /// Whether nobody is owed any more, as far as a process knows: then, whether all have succeeded.
    pub(super) fn is_through(&mut self, process: u32, id: &str) -> Option<bool> {
        let standings = &self.event(id).standings;
        let is_done =
            |standing: &Standing| standing.recorded.is_some() || standing.succeeded_in.contains(&process);
        let is_dead = |standing: &Standing| standing.is_recorded_dead || standing.died_in.contains(&process);
        let is_over = standings.iter().all(|standing| is_done(standing) || is_dead(standing));
        is_over.then(|| standings.iter().all(is_done))
    }

    /// An outcome was recorded. `is_given_up` says that the event was, as a whole. Says what is wrong with it.
    pub(super) fn recorded(
        &mut self,
        process: u32,
        settlement: &Settlement,
        is_given_up: bool,
    ) -> Result<Recording, String> {
        let Settlement { event_id: id, lease, outcome, handlers, .. } = settlement;
        self.steps += 1;
        let step = self.steps;
        let event = self.event(id);
        let text = handlers.as_deref();
        if event.falls_back(process) && outcome.is_done() && !outcome.spends() {
            return Err(format!("{id}: a handler has failed, and {outcome:?} counts no attempt"));
        }
        let recording = event.end_flight(process, lease.token, outcome, text);
        let said: Vec<Said> = event.standings.iter().map(|standing| said(outcome, text, standing)).collect();
        let has = |what: Said| said.contains(&what);
        let is_right = match outcome {
            Outcome::Dead { .. } | Outcome::Parked { .. } if !is_given_up => {
                has(Said::Dead) && !has(Said::Owed) && !has(Said::Nothing)
            }
            Outcome::Retry { .. } => has(Said::Owed),
            _ => true,
        };
        if !is_right {
            return Err(format!("{id}: {outcome:?} was recorded, but {text:?}"));
        }
        for (standing, said) in event.standings.iter_mut().zip(&said) {
            let handler = standing.handler;
            match said {
                Said::Done if !standing.has_succeeded => {
                    return Err(format!("{id}: {handler} was recorded as done, and never succeeded"));
                }
                Said::Done => {
                    standing.recorded.get_or_insert(step);
                }
                Said::Owed | Said::Dead if standing.recorded.is_some() => {
                    return Err(format!("{id}: {handler} was recorded as done, and now {text:?}"));
                }
                Said::Dead if !standing.may_be_dead() && !is_given_up && !recording.repeats_death => {
                    return Err(format!("{id}: {handler} was recorded as dead, and was not given up"));
                }
                _ => {}
            }
            if *said != Said::Nothing {
                standing.is_recorded_dead = *said == Said::Dead;
            }
        }
        Ok(Recording { is_partial: has(Said::Done) && (has(Said::Owed) || has(Said::Dead)), ..recording })
    }

    /// An outcome was refused, for its lease was lost.
    pub(super) fn refused(&mut self, process: u32, settlement: &Settlement) {
        let Settlement { event_id: id, lease, handlers, .. } = settlement;
        if let Some(flight) = self.event(id).flights.get_mut(&process) {
            flight.end(lease.token);
            flight.refused.clone_from(handlers);
            flight.falls_back = false;
        }
    }

    /// An operator replays an event. Says whether some of its handlers are dead and others are not.
    pub(super) fn replayed(&mut self, id: &str) -> bool {
        let standings = &mut self.event(id).standings;
        let dead = standings.iter().filter(|standing| standing.is_recorded_dead).count();
        let is_partial = 0 < dead && dead < standings.len();
        for standing in standings {
            standing.is_recorded_dead = false;
            standing.died_in.clear();
        }
        is_partial
    }

    /// Goes back to what was recorded earlier. What was recorded since may be forgotten by those who had it recorded.
    pub(super) fn fail_over(&mut self, mut earlier: Self) {
        for (id, event) in &mut self.events {
            let before = earlier.events.remove(id).unwrap_or_else(|| Tracked::new(id));
            for (standing, before) in event.standings.iter_mut().zip(before.standings) {
                if standing.recorded.is_some() && before.recorded.is_none() {
                    standing.excused.clone_from(&standing.succeeded_in);
                }
                standing.recorded = before.recorded;
                standing.is_recorded_dead = before.is_recorded_dead;
                standing.died_in.extend(before.died_in);
            }
        }
    }

    fn event(&mut self, id: &str) -> &mut Tracked {
        if !self.events.contains_key(id) {
            self.events.insert(id.to_owned(), Tracked::new(id));
        }
        self.events.get_mut(id).expect("it was just entered")
    }
}

impl Standing {
    /// Whether it was given up.
    fn may_be_dead(&self) -> bool {
        self.is_recorded_dead || !self.died_in.is_empty()
    }
}

impl Tracked {
    fn new(id: &str) -> Self {
        let handlers = receivers_of(Kind::of(id)).iter();
        let standings = handlers.map(|handler| Standing { handler, ..Standing::default() }).collect();
        Self { standings, flights: BTreeMap::new() }
    }

    fn standing(&mut self, handler: &str) -> &mut Standing {
        let standing = self.standings.iter_mut().find(|standing| standing.handler == handler);
        standing.expect("it was looked up when its turn began")
    }

    /// Whether a handler has failed for good in the pass of a process, and left the last word to its fallback.
    fn falls_back(&self, process: u32) -> bool {
        self.flights.get(&process).is_some_and(|flight| flight.falls_back)
    }

    fn end_flight(&mut self, process: u32, token: Token, outcome: &Outcome, text: Option<&str>) -> Recording {
        let Some(flight) = self.flights.get_mut(&process) else { return Recording::default() };
        let is_written_again = text.is_some() && flight.refused.as_deref() == text;
        let gives_way = flight.has_success && *outcome == Outcome::Released && text.is_none();
        flight.end(token);
        (flight.has_success, flight.falls_back) = (false, false);
        flight.refused = None;
        let is_dead = matches!(outcome, Outcome::Dead { .. } | Outcome::Parked { .. });
        let repeats_death = std::mem::replace(&mut flight.has_died, is_dead) && is_dead;
        Recording { is_written_again, gives_way, repeats_death, ..Recording::default() }
    }
}

impl Flight {
    /// The last take that the process has been told of, or the first.
    fn last_known(&self) -> Option<&Taking> {
        self.takes.iter().rfind(|taking| taking.is_known).or(self.takes.first())
    }

    /// What was taken under this token, or before, is over.
    fn end(&mut self, token: Token) {
        if let Some(last) = self.takes.iter().rposition(|taken| taken.token == token) {
            self.takes.drain(..=last);
        }
    }
}

/// What an outcome and its text say of a handler.
fn said(outcome: &Outcome, text: Option<&str>, standing: &Standing) -> Said {
    if outcome.is_done() {
        return Said::Done;
    }
    let name = format!("\"{}\":", standing.handler);
    match text.and_then(|text| text.split_once(&name)) {
        Some((_, said)) if said.starts_with("\"done\"") => Said::Done,
        Some((_, said)) if said.starts_with("{\"owed\"") => Said::Owed,
        Some((_, said)) if said.starts_with("{\"dead\"") => Said::Dead,
        _ => Said::Nothing,
    }
}
