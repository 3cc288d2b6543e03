//! Keys that are blocked, and how they get going again.

use super::*;

const WAITS: Duration = Duration::from_secs(60);

/// O2: once the head is through, what is aside runs in order, in runs, and only then fresh events.
#[test]
fn key_goes_on_in_runs_when_its_head_is_through() {
    let limits = Limits { events: 100, unrecorded: 0, of_key: 2 };
    let waits = blocked("order-17", WAITS, None);
    let mut rig = Rig::with(Order::Release, limits, holding(), &[waits]);
    assert_eq!(rig.fetch(vec![of(9, "order-17")]), ["aside 9"]);
    rig.record([9]);
    assert!(rig.0.key().is_none());

    assert_eq!(rig.due(vec![of(1, "order-17")]), ["run 1"]);
    assert_eq!(rig.end(1, Outcome::Done), ["done 1"]);
    assert_eq!(rig.key("order-17", vec![of(2, "order-17"), of(3, "order-17")]), ["run 2"]);
    assert_eq!(rig.fetch(vec![of(10, "order-17")]), ["aside 10"]);
    rig.record([10]);
    assert_eq!(rig.end(2, Outcome::Done), ["done 2", "run 3"]);
    assert_eq!(rig.key("order-17", vec![of(9, "order-17"), of(10, "order-17")]), [""; 0]);
    assert_eq!(rig.end(3, Outcome::Done), ["done 3", "run 9"]);
    assert_eq!(rig.end(9, Outcome::Done), ["done 9", "run 10"]);
    assert_eq!(rig.key("order-17", vec![]), [""; 0]);

    assert_eq!(rig.fetch(vec![of(11, "order-17")]), [""; 0]);
    assert_eq!(rig.end(10, Outcome::Done), ["done 10", "run 11"]);
}

/// O2: a head that fails again blocks its key again.
#[test]
fn head_that_fails_again_holds_its_key() {
    let mut rig = Rig::blocked_by(Order::Release, 1, "order-17");

    assert_eq!(rig.due(vec![of(1, "order-17")]), ["run 1"]);
    assert_eq!(rig.end(1, retry()), ["retry 1"]);

    assert!(rig.0.key().is_none());
    assert_eq!(rig.fetch(vec![of(2, "order-17")]), ["aside 2"]);
}

/// O2: an event that fails among those that were aside sends the others back without a write.
#[test]
fn failure_in_a_run_forgets_the_rest_of_it() {
    let mut rig = Rig::blocked_by(Order::Release, 1, "order-17");
    rig.due(vec![of(1, "order-17")]);
    rig.end(1, Outcome::Done);
    rig.key("order-17", vec![of(2, "order-17"), of(3, "order-17")]);

    assert_eq!(rig.fetch(vec![of(4, "order-17")]), [""; 0]);
    assert_eq!(rig.end(2, retry()), ["retry 2", "aside 4"]);

    rig.record([1, 2, 4]);
    assert!(rig.0.is_empty(PARTITION));
}

/// O1: a fresh event that is read while its key is, and is still on its way aside when the read finds nothing, is
/// neither lost nor overtaken.
#[test]
fn event_on_its_way_aside_keeps_its_key_closed() {
    let mut rig = Rig::blocked_by(Order::Release, 1, "order-17");
    rig.due(vec![of(1, "order-17")]);
    rig.end(1, Outcome::Done);
    assert_eq!(rig.fetch(vec![of(2, "order-17")]), ["aside 2"]);

    let read = rig.0.key().unwrap();
    rig.record([2]);
    assert_eq!(told(rig.0.answer(read, vec![])), [""; 0]);

    assert_eq!(rig.fetch(vec![of(3, "order-17")]), [""; 0]);
    assert_eq!(rig.key("order-17", vec![of(2, "order-17")]), ["run 2"]);
    assert_eq!(rig.end(2, Outcome::Done), ["done 2", "run 3"]);
}

/// O1: what was set aside later is recorded first, and still runs later.
#[test]
fn run_ends_before_an_event_that_is_on_its_way_aside() {
    let mut rig = Rig::blocked_by(Order::Release, 1, "order-17");
    assert_eq!(rig.fetch(vec![of(2, "order-17"), of(3, "order-17")]), ["aside 2", "aside 3"]);
    rig.record([3]);
    rig.due(vec![of(1, "order-17")]);
    rig.end(1, Outcome::Done);

    assert_eq!(rig.key("order-17", vec![of(3, "order-17")]), [""; 0]);
    assert!(rig.0.key().is_none());

    rig.record([2]);
    assert_eq!(rig.key("order-17", vec![of(2, "order-17"), of(3, "order-17")]), ["run 2"]);
}

/// O1: a read that began before its key was blocked again says nothing about it.
#[test]
fn read_from_before_a_failure_opens_no_key() {
    let mut rig = Rig::blocked_by(Order::Release, 1, "order-17");
    rig.due(vec![of(1, "order-17"), of(2, "order-17")]);
    rig.end(1, Outcome::Done);

    let read = rig.0.key().unwrap();
    assert_eq!(rig.end(2, retry()), ["retry 2"]);
    rig.record([1, 2]);
    assert_eq!(told(rig.0.answer(read, vec![])), [""; 0]);

    assert_eq!(rig.fetch(vec![of(3, "order-17")]), ["aside 3"]);
}

/// O1: an event that went back, and is read again while its key closes, still comes before what is aside.
#[test]
fn event_that_went_back_comes_before_what_is_aside() {
    let limits = Limits { events: 100, unrecorded: 0, of_key: 1 };
    let mut rig = Rig::with(Order::Release, limits, holding(), &[]);
    assert_eq!(rig.fetch((1..=3).map(|seq| of(seq, "order-17")).collect()), ["run 1"]);
    rig.relieve();
    assert_eq!(rig.fetch(vec![of(3, "order-17")]), ["aside 3"]);
    rig.end(1, Outcome::Released);
    rig.record([1]);
    assert_eq!(rig.key("order-17", vec![]), [""; 0]);
    assert_eq!(rig.fetch(vec![of(1, "order-17"), of(2, "order-17")]), ["aside 2"]);
    rig.record([2, 3]);

    assert_eq!(rig.key("order-17", vec![of(2, "order-17")]), ["aside 1"]);

    rig.record([1]);
    assert_eq!(rig.key("order-17", vec![of(1, "order-17")]), ["run 1"]);
}

/// O1: a head that is given back after its key was opened behind it closes the key again.
#[test]
fn released_head_closes_its_key_again() {
    let ready = blocked("order-17", Duration::ZERO, None);
    let limits = Limits { events: 100, unrecorded: 0, of_key: 10 };
    let mut rig = Rig::with(Order::Release, limits, holding(), &[ready]);
    assert_eq!(rig.due(vec![of(1, "order-17")]), ["run 1"]);
    assert_eq!(rig.key("order-17", vec![]), [""; 0]);
    assert_eq!(rig.fetch(vec![of(2, "order-17")]), [""; 0]);

    rig.end(1, Outcome::Released);
    rig.record([1]);

    assert_eq!(rig.fetch(vec![of(2, "order-17")]), ["aside 2"]);
    assert_eq!(rig.key("order-17", vec![of(1, "order-17")]), ["run 1"]);
}

/// O2: a key with another event in backoff waits for that one too.
#[test]
fn key_waits_for_each_event_in_backoff() {
    let mut rig = Rig::blocked_by(Order::Release, 1, "order-17");
    rig.due(vec![of(1, "order-17")]);
    rig.end(1, Outcome::Done);
    rig.record([1]);

    let run = vec![of(2, "order-17"), in_an_hour(of(3, "order-17")), of(4, "order-17")];
    assert_eq!(rig.key("order-17", run), ["run 2"]);
    assert_eq!(rig.end(2, Outcome::Done), ["done 2"]);
    rig.record([2]);
    assert_eq!(rig.key("order-17", vec![in_an_hour(of(3, "order-17")), of(4, "order-17")]), [""; 0]);

    assert!(rig.0.key().is_none());
    assert_eq!(rig.due(vec![of(3, "order-17")]), ["run 3"]);
    assert_eq!(rig.end(3, Outcome::Done), ["done 3"]);
    assert_eq!(rig.key("order-17", vec![of(4, "order-17")]), ["run 4"]);
}

/// V8: a delayed event is set aside until it is due, and its key goes on.
#[test]
fn delayed_event_waits_aside_without_its_key() {
    let mut rig = Rig::new(Order::Release);

    let steps = rig.fetch(vec![in_an_hour(of(1, "order-17")), of(2, "order-17")]);

    assert_eq!(steps, ["later 1", "run 2"]);
}

/// V8: when it is due it is next, whether its key is blocked or not, and not beside another of its key.
#[test]
fn due_event_does_not_wait_for_a_blocked_key() {
    let mut rig = Rig::new(Order::Release);
    rig.fetch(vec![of(1, "order-17"), of(2, "order-17")]);

    assert_eq!(rig.due(vec![of(9, "order-17")]), [""; 0]);
    assert_eq!(rig.end(1, retry()), ["retry 1", "aside 2", "run 9"]);
    rig.record([1, 2]);
    assert_eq!(rig.end(9, Outcome::Done), ["done 9"]);

    let waits = vec![in_an_hour(of(1, "order-17")), of(2, "order-17")];
    assert_eq!(rig.key("order-17", waits), [""; 0]);
    assert_eq!(rig.fetch(vec![of(10, "order-17")]), ["aside 10"]);
}

/// V8: once it has failed it holds its key like any other.
#[test]
fn delayed_event_that_fails_holds_its_key() {
    let mut rig = Rig::new(Order::Release);
    rig.due(vec![of(1, "order-17")]);
    rig.fetch(vec![of(2, "order-17")]);

    assert_eq!(rig.end(1, retry()), ["retry 1", "aside 2"]);
}

/// A delayed or replayed event that is through leaves a parked key parked.
#[test]
fn due_event_frees_no_parked_key() {
    let parked = blocked("order-17", Duration::ZERO, Some("event-1"));
    let limits = Limits { events: 100, unrecorded: 0, of_key: 10 };
    let mut rig = Rig::with(Order::Park, limits, holding(), &[parked]);

    assert_eq!(rig.due(vec![of(5, "order-17")]), ["run 5"]);
    assert_eq!(rig.end(5, Outcome::Done), ["done 5"]);

    assert!(rig.0.key().is_none());
    assert_eq!(rig.fetch(vec![of(6, "order-17")]), ["aside 6"]);
}

/// D11: an outcome that could not be recorded leaves its key neither blocked for ever nor out of order.
#[test]
fn key_is_read_again_after_an_unrecorded_outcome() {
    let mut rig = Rig::new(Order::Release);
    rig.fetch(vec![of(1, "order-17"), of(2, "order-17")]);
    assert_eq!(rig.end(1, retry()), ["retry 1", "aside 2"]);
    rig.record([2]);

    assert_eq!(told(rig.0.recorded(lease(1), false)), [""; 0]);
    assert_eq!(rig.key("order-17", vec![of(2, "order-17")]), [""; 0]);

    assert!(rig.0.key().is_none(), "the first must be seen before");
    assert_eq!(rig.fetch(vec![of(1, "order-17")]), ["aside 1"]);
    rig.record([1]);
    assert_eq!(rig.key("order-17", vec![of(1, "order-17"), of(2, "order-17")]), ["run 1"]);
}

/// A read that failed is begun again.
#[test]
fn failed_read_is_repeated() {
    let ready = blocked("order-17", Duration::ZERO, None);
    let limits = Limits { events: 100, unrecorded: 0, of_key: 10 };
    let mut rig = Rig::with(Order::Release, limits, holding(), &[ready]);

    let read = rig.0.key().unwrap();
    assert!(rig.0.fresh(&[PARTITION], closed(1)).is_none(), "one read at a time");
    assert_eq!(told(rig.0.fail(read)), [""; 0]);

    assert_eq!(rig.0.key().unwrap().key(), Some("order-17"));
}

/// D7: a key is read on without room if others wait for it in memory, or they would wait for ever; otherwise not.
#[test]
fn key_is_read_without_room_only_for_those_that_wait() {
    let limits = Limits { events: 2, unrecorded: 0, of_key: 10 };
    let ready = [blocked("order-17", Duration::ZERO, None), blocked("order-18", Duration::ZERO, None)];
    let mut rig = Rig::with(Order::Release, limits, holding(), &ready);
    assert_eq!(rig.fetch(vec![of(1, "order-18")]), ["aside 1"]);
    rig.key("order-17", vec![]);
    rig.key("order-18", vec![]);
    rig.record([1]);
    rig.fetch(vec![of(3, "order-18"), fetched(OURS, 4, None)]);
    rig.0.take_over(&Holding { partition: 8, ..holding() }, &[Blocked { partition: 8, ..ready[0].clone() }]);

    let read = rig.0.key().unwrap();

    assert_eq!((read.key(), rig.0.room(), read.limit()), (Some("order-18"), 0, 1));
    assert_eq!(told(rig.0.answer(read, vec![of(1, "order-18")])), ["aside 3", "run 1"]);
    assert!(rig.0.key().is_none());
}

/// O6, S9: a read of what is due names what it could find, and not the thousands of fresh events that are in flight beside
/// it: a statement that long is sent in pieces, and the others stand still meanwhile.
#[test]
fn read_of_what_is_due_names_only_what_may_be_aside() {
    let mut rig = Rig::blocked_by(Order::Release, 1, "order-17");
    let mut fresh: Vec<Fetched> = (20..50).map(|seq| of(seq, &format!("order-{seq}"))).collect();
    fresh.push(of(50, "order-17"));
    fresh.push(in_an_hour(of(51, "order-99")));
    rig.fetch(fresh);
    rig.end(20, Outcome::Done);
    rig.end(21, dead());
    rig.end(22, retry());
    rig.end(23, Outcome::Released);
    rig.due(vec![of(1, "order-17")]);

    let read = rig.0.due(&[PARTITION]).unwrap();

    // One that was aside, a retry, one behind its key, and a delayed one; the last three are on their way there.
    assert_eq!(read.visits()[0].in_flight, [1, 22, 50, 51]);
    rig.0.fail(read);
}
