//! Each promise of the lanes, one by one.

mod aside;
mod crowds;
mod partitions;

use std::time::Duration;

use super::*;
use crate::store::{Epoch, Numbers, Outcome};
use crate::{Event, Timestamp};

const PARTITION: u8 = 7;
const EPOCH: Epoch = Epoch(3);
const OURS: Token = Token::of_partition(PARTITION, EPOCH);

/// An event as a read brings it.
pub(super) fn fetched(token: Token, seq: i64, key: Option<&str>) -> Fetched {
    let event_id = format!("event-{seq}");
    let event = Event::builder("OrderPlaced").id(&event_id).json_text("{}").build().unwrap();
    let taken = Taken {
        lease: Lease { seq, token, attempts: 0, starts: 0 },
        event_id,
        created_at: Timestamp::from_micros(0),
        due_for: Duration::ZERO,
        handlers: None,
        event: Ok(event),
    };
    Fetched { taken, key: key.map(str::to_owned), ready_in: Duration::ZERO }
}

fn of(seq: i64, key: &str) -> Fetched {
    fetched(OURS, seq, Some(key))
}

fn in_an_hour(fetched: Fetched) -> Fetched {
    Fetched { ready_in: Duration::from_secs(3_600), ..fetched }
}

fn lease(seq: i64) -> Lease {
    fetched(OURS, seq, None).taken.lease
}

fn holding() -> Holding {
    Holding { partition: PARTITION, epoch: EPOCH, floor: 0, crashes: 0, suspect_to: 0 }
}

fn blocked(key: &str, ready_in: Duration, parked_for: Option<&str>) -> Blocked {
    let parked_for = parked_for.map(str::to_owned);
    Blocked { partition: PARTITION, key: key.to_owned(), first: Some(1), ready_in, parked_for }
}

fn retry() -> Outcome {
    Outcome::Retry { after: Duration::from_secs(60), error: "refused".to_owned(), spent: true }
}

fn dead() -> Outcome {
    Outcome::Dead { error: "refused".to_owned(), spent: true }
}

/// What the steps say, in short.
fn told(steps: Vec<Step>) -> Vec<String> {
    let tell = |step| match step {
        Step::Run { taken, is_suspect: false } => format!("run {}", taken.lease.seq),
        Step::Run { taken, is_suspect: true } => format!("run {} alone", taken.lease.seq),
        Step::Settle(Settlement { lease, outcome, .. }) => {
            let name = match outcome {
                Outcome::Done | Outcome::FellBack { .. } => "done",
                Outcome::Retry { .. } => "retry",
                Outcome::Aside { until: None, .. } => "aside",
                Outcome::Aside { until: Some(_), .. } => "later",
                Outcome::Dead { .. } => "dead",
                Outcome::Parked { .. } => "parked",
                Outcome::Released => "released",
            };
            format!("{name} {}", lease.seq)
        }
    };
    steps.into_iter().map(tell).collect()
}

/// All numbers up to this one are given and closed.
fn closed(number: i64) -> Numbers {
    Numbers { closed: number, given: number }
}

/// Lanes with one partition, and an owner's routine in short.
struct Rig(Lanes);

impl Rig {
    fn new(order: Order) -> Self {
        Self::with(order, Limits { events: 100, unrecorded: 0, of_key: 10 }, holding(), &[])
    }

    fn with(order: Order, limits: Limits, holding: Holding, blocked: &[Blocked]) -> Self {
        let mut lanes = Lanes::new(order, limits);
        lanes.take_over(&holding, blocked);
        Self(lanes)
    }

    fn fetch(&mut self, events: Vec<Fetched>) -> Vec<String> {
        let read = self.0.fresh(&[PARTITION], closed(i64::MAX)).unwrap();
        told(self.0.answer(read, events))
    }

    /// Looks behind a crowd, which tells nobody to do anything, and says whether it is there still.
    fn look(&mut self, numbers: Numbers, events: Vec<Fetched>) -> bool {
        let read = self.0.behind(PARTITION, numbers).unwrap();
        assert_eq!(told(self.0.answer(read, events)), [""; 0]);
        self.0.is_crowded(PARTITION)
    }

    /// Looks behind a crowd, and finds others.
    fn relieve(&mut self) {
        assert!(!self.look(closed(0), vec![fetched(OURS, 1_000, None)]));
    }

    fn due(&mut self, events: Vec<Fetched>) -> Vec<String> {
        let read = self.0.due(&[PARTITION]).unwrap();
        told(self.0.answer(read, events))
    }

    /// Reads what is aside of this key, whose turn it must be.
    fn key(&mut self, key: &str, events: Vec<Fetched>) -> Vec<String> {
        let read = self.0.key().unwrap();
        assert_eq!(read.key(), Some(key));
        told(self.0.answer(read, events))
    }

    fn end(&mut self, seq: i64, outcome: Outcome) -> Vec<String> {
        told(self.0.ended(Settlement::new(format!("event-{seq}"), lease(seq), outcome)))
    }

    fn record(&mut self, seqs: impl IntoIterator<Item = i64>) -> Vec<String> {
        seqs.into_iter().flat_map(|seq| told(self.0.recorded(lease(seq), true))).collect()
    }

    /// An event of this key fails, and that is recorded.
    fn blocked_by(order: Order, seq: i64, key: &str) -> Self {
        let mut rig = Self::new(order);
        rig.fetch(vec![of(seq, key)]);
        rig.end(seq, retry());
        rig.record([seq]);
        rig
    }

    fn floor(&self) -> i64 {
        self.0.floor(PARTITION).unwrap().floor
    }
}

/// Whether a read of fresh events passes this one by.
fn passes(read: &Read, seq: i64) -> bool {
    let visit = &read.visits()[0];
    seq <= visit.floor || visit.in_flight.contains(&seq)
}

/// W9: no key, no order.
#[test]
fn events_without_a_key_never_wait() {
    let mut rig = Rig::new(Order::Release);

    let steps = rig.fetch(vec![fetched(OURS, 1, None), fetched(OURS, 2, None)]);
    assert_eq!(steps, ["run 1", "run 2"]);

    assert_eq!(rig.end(1, retry()), ["retry 1"]);
    assert_eq!(rig.fetch(vec![fetched(OURS, 3, None)]), ["run 3"]);
}

/// O1: one after the other in a key, different keys in parallel.
#[test]
fn keys_run_in_order_and_in_parallel() {
    let mut rig = Rig::new(Order::Release);

    let steps = rig.fetch(vec![of(1, "order-17"), of(2, "order-17"), of(3, "order-18")]);
    assert_eq!(steps, ["run 1", "run 3"]);

    assert_eq!(rig.end(1, Outcome::Done), ["done 1", "run 2"]);
    assert_eq!(rig.fetch(vec![of(4, "order-17")]), [""; 0]);
    assert_eq!(rig.end(2, Outcome::Done), ["done 2", "run 4"]);
}

/// O1: a late commit goes before what waits with a higher number.
#[test]
fn late_commits_are_sorted_in() {
    let mut rig = Rig::new(Order::Release);
    rig.fetch(vec![of(1, "order-17"), of(5, "order-17")]);

    rig.fetch(vec![of(3, "order-17")]);

    assert_eq!(rig.end(1, Outcome::Done), ["done 1", "run 3"]);
}

/// O2: a failing event holds back its own key only.
#[test]
fn failure_sets_its_followers_aside() {
    let mut rig = Rig::new(Order::Release);
    rig.fetch(vec![of(1, "order-17"), of(2, "order-17"), of(3, "order-18"), of(4, "order-18")]);

    assert_eq!(rig.end(1, retry()), ["retry 1", "aside 2"]);

    assert_eq!(rig.fetch(vec![of(5, "order-17"), of(6, "order-19")]), ["aside 5", "run 6"]);
    assert_eq!(rig.end(3, Outcome::Done), ["done 3", "run 4"]);
}

/// O2: the reason by which a follower is set aside names its key.
#[test]
fn followers_say_which_key_they_wait_for() {
    let mut rig = Rig::blocked_by(Order::Release, 1, "order-17");
    let read = rig.0.fresh(&[PARTITION], closed(2)).unwrap();

    let steps = rig.0.answer(read, vec![of(2, "order-17")]);

    let Step::Settle(Settlement { event_id, outcome, .. }) = &steps[0] else { panic!("{steps:?}") };
    assert_eq!(event_id, "event-2");
    assert_eq!(*outcome, Outcome::Aside { until: None, reason: "key: order-17".to_owned() });
}

/// O2: with `stop_on_first_failure` off, later events go on.
#[test]
fn failure_holds_nothing_when_keys_go_on() {
    let mut rig = Rig::new(Order::GoOn);
    rig.fetch(vec![of(1, "order-17"), of(2, "order-17")]);

    assert_eq!(rig.end(1, retry()), ["retry 1", "run 2"]);
    assert_eq!(rig.end(2, dead()), ["dead 2"]);
    rig.record([1, 2]);
    assert_eq!(rig.fetch(vec![of(3, "order-17")]), ["run 3"]);
    assert_eq!(rig.due(vec![of(1, "order-17")]), [""; 0]);
    assert_eq!(rig.end(3, Outcome::Done), ["done 3", "run 1"]);
}

/// Without order nothing waits, not even in one key.
#[test]
fn keys_do_not_matter_without_order() {
    let mut rig = Rig::new(Order::None);

    let steps = rig.fetch(vec![of(1, "order-17"), of(2, "order-17")]);

    assert_eq!(steps, ["run 1", "run 2"]);
}

/// O6: a dead event releases its key.
#[test]
fn dead_event_lets_its_key_go_on() {
    let mut rig = Rig::new(Order::Release);
    rig.fetch(vec![of(1, "order-17"), of(2, "order-17")]);

    assert_eq!(rig.end(1, dead()), ["dead 1", "run 2"]);
}

/// O6: a dead event parks its key, until an operator frees it; order is kept.
#[test]
fn parked_key_goes_on_when_it_is_freed() {
    let mut rig = Rig::new(Order::Park);
    rig.fetch(vec![of(1, "order-17"), of(2, "order-17")]);

    assert_eq!(rig.end(1, dead()), ["parked 1", "aside 2"]);
    assert!(rig.0.parked(&[PARTITION]).is_none(), "it is not recorded yet");
    rig.record([1, 2]);
    assert_eq!(rig.fetch(vec![of(3, "order-17")]), ["aside 3"]);
    rig.record([3]);

    let read = rig.0.parked(&[PARTITION]).unwrap();
    let still = blocked("order-17", Duration::ZERO, Some("event-1"));
    assert_eq!(told(rig.0.answer_blocked(read, &[still])), [""; 0]);
    assert!(rig.0.key().is_none());

    let read = rig.0.parked(&[PARTITION]).unwrap();
    let skipped = blocked("order-17", Duration::ZERO, None);
    assert_eq!(told(rig.0.answer_blocked(read, &[skipped])), [""; 0]);
    assert_eq!(rig.key("order-17", vec![of(2, "order-17"), of(3, "order-17")]), ["run 2"]);
    assert_eq!(rig.end(2, Outcome::Done), ["done 2", "run 3"]);
}

/// O6: the event that a key is parked for, replayed, leads the key on.
#[test]
fn replay_of_the_dead_head_leads_its_key_on() {
    let mut rig = Rig::new(Order::Park);
    rig.fetch(vec![of(1, "order-17"), of(2, "order-17")]);
    rig.end(1, dead());
    rig.record([1, 2]);

    assert_eq!(rig.due(vec![of(1, "order-17")]), ["run 1"]);
    assert_eq!(rig.end(1, Outcome::Done), ["done 1"]);

    assert_eq!(rig.key("order-17", vec![of(2, "order-17")]), ["run 2"]);
}

/// D8: what is given back spends nothing, and comes again before what follows it.
#[test]
fn released_event_comes_again_in_order() {
    let mut rig = Rig::new(Order::Release);
    rig.fetch(vec![of(1, "order-17"), of(2, "order-17")]);
    assert_eq!(rig.end(1, Outcome::Released), ["released 1"]);
    let read = rig.0.fresh(&[PARTITION], closed(9)).unwrap();
    assert!(passes(&read, 1) && passes(&read, 2));

    assert_eq!(rig.record([1]), [""; 0]);
    assert_eq!(told(rig.0.answer(read, vec![of(3, "order-17")])), [""; 0]);

    assert_eq!(rig.floor(), 0);
    let again = vec![of(1, "order-17"), of(2, "order-17"), of(3, "order-17")];
    assert_eq!(rig.fetch(again), ["run 1"]);
}

/// P5: a key with a long backlog is read on as it runs, and nothing of it is written twice.
#[test]
fn hot_key_is_read_on_as_it_runs() {
    let limits = Limits { events: 10, unrecorded: 10, of_key: 4 };
    let mut rig = Rig::with(Order::Release, limits, holding(), &[]);

    assert_eq!(rig.fetch((1..=9).map(|seq| of(seq, "order-17")).collect()), ["run 1"]);
    assert!(rig.0.is_crowded(PARTITION));
    assert!(rig.0.fresh(&[PARTITION], closed(100)).is_none(), "there is no room for the next of the key");

    rig.end(1, Outcome::Done);
    assert_eq!(rig.end(2, Outcome::Done), ["done 2", "run 3"]);
    let read = rig.0.fresh(&[PARTITION], closed(100)).unwrap();
    assert_eq!((read.limit(), passes(&read, 5), passes(&read, 6)), (2, true, false));
    rig.0.answer(read, vec![of(6, "order-17"), of(7, "order-17")]);
    assert!(rig.0.is_crowded(PARTITION), "more may follow");
    for seq in 3..=7 {
        rig.end(seq, Outcome::Done);
    }

    assert_eq!(rig.fetch(vec![of(8, "order-17")]), ["run 8"]);
    assert!(!rig.0.is_crowded(PARTITION));
}

/// Guarantee 7: others pass a slow key; what is too much of it waits aside, in order.
#[test]
fn slow_key_leaves_room_for_others() {
    let limits = Limits { events: 10, unrecorded: 0, of_key: 2 };
    let mut rig = Rig::with(Order::Release, limits, holding(), &[]);
    let of_slow =
        |seqs: std::ops::RangeInclusive<i64>| -> Vec<_> { seqs.map(|seq| of(seq, "order-17")).collect() };
    assert_eq!(rig.fetch(of_slow(1..=5)), ["run 1"]);

    let found = of_slow(4..=5).into_iter().chain([of(6, "order-18")]);
    assert!(!rig.look(closed(0), found.collect()));
    assert_eq!(rig.fetch(of_slow(4..=5)), ["aside 4", "aside 5"]);

    rig.record([4, 5]);
    assert_eq!(rig.0.room(), 7);
    assert_eq!(rig.fetch(vec![of(6, "order-18"), of(7, "order-17")]), ["run 6", "aside 7"]);
    assert_eq!(rig.end(1, Outcome::Done), ["done 1", "run 2"]);
    assert_eq!(rig.end(2, Outcome::Done), ["done 2", "run 3"]);
    assert_eq!(rig.key("order-17", vec![of(4, "order-17"), of(5, "order-17")]), [""; 0]);
    assert_eq!(rig.end(3, Outcome::Done), ["done 3", "run 4"]);
}

/// D7: what does not fit is not read.
#[test]
fn room_is_divided_among_the_partitions() {
    let mut lanes = Lanes::new(Order::Release, Limits { events: 5, unrecorded: 0, of_key: 5 });
    for partition in 0..3 {
        lanes.take_over(&Holding { partition, ..holding() }, &[]);
    }

    let read = lanes.fresh(&[2, 0, 2, 9], closed(100)).unwrap();
    assert_eq!(read.visits().iter().map(|visit| visit.partition).collect::<Vec<_>>(), [2, 0]);
    assert_eq!(read.limit(), 2);
    let token = Token::of_partition(2, EPOCH);
    lanes.answer(read, (1..=4).map(|seq| fetched(token, seq, None)).collect());

    let read = lanes.fresh(&[0, 1], closed(100)).unwrap();
    assert_eq!((read.visits().len(), read.limit()), (1, 1));
    lanes.answer(read, vec![fetched(Token::of_partition(0, EPOCH), 5, None)]);
    assert!(lanes.fresh(&[0, 1, 2], closed(100)).is_none());
    assert!(lanes.due(&[0, 1, 2]).is_none());
}
