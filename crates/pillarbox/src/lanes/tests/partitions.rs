//! Partitions that come and go, their floors, and their suspects.

use super::*;

/// What a take-over finds: a key whose first event waits, one that can go on, and one that is parked.
fn left_behind() -> [Blocked; 3] {
    [
        blocked("order-17", Duration::from_secs(60), None),
        blocked("order-18", Duration::ZERO, None),
        blocked("order-19", Duration::ZERO, Some("event-5")),
    ]
}

fn taken_over(order: Order) -> Rig {
    Rig::with(order, Limits { events: 100, unrecorded: 0, of_key: 10 }, holding(), &left_behind())
}

/// O5, O6: a new owner lets no fresh event pass what was left aside, and reads on where nothing has to wait.
#[test]
fn take_over_begins_with_the_blocked_keys() {
    let mut rig = taken_over(Order::Release);

    let fresh = ["order-17", "order-18", "order-19", "order-20"];
    let fresh = fresh.iter().zip(21..).map(|(key, seq)| of(seq, key)).collect();
    assert_eq!(rig.fetch(fresh), ["aside 21", "aside 22", "aside 23", "run 24"]);

    assert_eq!(rig.key("order-18", vec![of(2, "order-18")]), ["run 2"]);
    assert!(rig.0.key().is_none());
}

/// O1: a follower that was recorded as aside before the one in front of it does not overtake it after a crash.
#[test]
fn aside_events_wait_for_fresh_ones_before_them() {
    let limits = Limits { events: 2, unrecorded: 0, of_key: 2 };
    let mut rig = Rig::with(Order::Release, limits, holding(), &left_behind());

    assert_eq!(rig.key("order-18", vec![of(8, "order-18")]), [""; 0]);
    assert!(rig.0.key().is_none());

    assert_eq!(rig.fetch(vec![fetched(OURS, 1, None), of(7, "order-18")]), ["run 1", "aside 7"]);
    assert!(rig.0.key().is_none(), "fresh events up to 7 were seen, and there may be more");
    rig.end(1, Outcome::Done);
    rig.record([1, 7]);
    rig.fetch(vec![]);
    assert_eq!(rig.key("order-18", vec![of(7, "order-18"), of(8, "order-18")]), ["run 7"]);
}

/// O2: who lets keys go on waits for nothing that was left, and still forgets nothing.
#[test]
fn keys_that_go_on_pass_what_waits_for_its_time() {
    let limits = Limits { events: 100, unrecorded: 0, of_key: 1 };
    let mut rig = Rig::with(Order::GoOn, limits, holding(), &left_behind()[..1]);
    rig.fetch(vec![]);

    assert_eq!(rig.key("order-17", vec![in_an_hour(of(1, "order-17"))]), [""; 0]);
    let read = rig.0.key().unwrap();
    assert_eq!(read.visits()[0].in_flight, [1]);
    assert_eq!(told(rig.0.answer(read, vec![of(2, "order-17")])), ["run 2"]);
    assert_eq!(rig.key("order-17", vec![]), [""; 0]);

    assert_eq!(rig.end(2, Outcome::Done), ["done 2"]);
    assert_eq!(rig.fetch(vec![of(3, "order-17")]), ["run 3"]);
}

/// O5: nothing of a lost partition is left, and outcomes from before are for the store to refuse.
#[test]
fn lost_partition_is_forgotten() {
    let mut rig = Rig::new(Order::Release);
    rig.fetch(vec![of(1, "order-17"), of(2, "order-17")]);
    let read = rig.0.fresh(&[PARTITION], closed(9)).unwrap();

    rig.0.take_over(&Holding { epoch: Epoch(5), ..holding() }, &[]);

    assert_eq!(rig.end(1, retry()), ["retry 1"]);
    assert_eq!(told(rig.0.answer(read, vec![of(3, "order-17")])), [""; 0]);
    assert!(rig.0.is_empty(PARTITION));
    rig.0.lose(PARTITION);
    assert!(rig.0.floor(PARTITION).is_none());
}

/// D8, O5: a partition that is given up begins nothing more and is empty when what ran is recorded.
#[test]
fn drained_partition_begins_nothing() {
    let mut rig = Rig::new(Order::Release);
    rig.fetch(vec![of(1, "order-17"), of(2, "order-17"), of(3, "order-18")]);
    let read = rig.0.fresh(&[PARTITION], closed(9)).unwrap();

    rig.0.drain(PARTITION);

    assert_eq!(told(rig.0.answer(read, vec![of(4, "order-19")])), [""; 0]);
    assert_eq!(rig.end(1, Outcome::Done), ["done 1"]);
    assert_eq!(rig.end(3, retry()), ["retry 3"]);
    assert!(rig.0.fresh(&[PARTITION], closed(9)).is_none());
    rig.record([1]);
    assert!(!rig.0.is_empty(PARTITION));
    rig.record([3]);
    assert!(rig.0.is_empty(PARTITION));
    assert_eq!(rig.floor(), 0);
}

/// The floor rises by a read to what is closed and recorded, and not before.
#[test]
fn floor_waits_for_what_is_not_recorded() {
    let mut rig = Rig::new(Order::Release);
    let read = rig.0.fresh(&[PARTITION], closed(30)).unwrap();
    rig.0.answer(read, vec![of(1, "order-17"), of(2, "order-17"), of(3, "order-18")]);
    rig.end(1, retry());
    rig.end(3, Outcome::Done);
    rig.record([1, 3]);

    let read = rig.0.fresh(&[PARTITION], closed(40)).unwrap();
    rig.0.answer(read, vec![]);
    assert_eq!(rig.floor(), 1, "2 is not recorded as aside");

    rig.record([2]);
    assert_eq!(rig.floor(), 1, "no read has come back since");
    let read = rig.0.fresh(&[PARTITION], closed(50)).unwrap();
    rig.0.answer(read, vec![]);
    assert_eq!(rig.floor(), 50);
}

/// O1: a backlog is read on without looking back as far as it had numbers at the last read from what is passed. What is
/// numbered later may have to follow what has appeared behind.
#[test]
fn backlog_is_read_on_as_far_as_it_had_numbers() {
    let mut rig =
        Rig::with(Order::Release, Limits { events: 2, unrecorded: 100, of_key: 10 }, holding(), &[]);
    let numbers = Numbers { closed: 0, given: 4 };
    let begins = |read: &Read| read.visits()[0].floor;
    let read = rig.0.fresh(&[PARTITION], numbers).unwrap();
    assert_eq!(begins(&read), 0);
    rig.0.answer(read, vec![of(2, "order-17"), of(3, "order-18")]);
    rig.end(2, Outcome::Done);
    rig.end(3, Outcome::Done);

    // 1 has appeared behind, and 5 was inserted after that.
    let read = rig.0.fresh(&[PARTITION], Numbers { closed: 5, given: 5 }).unwrap();
    assert_eq!(begins(&read), 3);
    assert_eq!(told(rig.0.answer(read, vec![of(4, "order-17"), of(5, "order-19")])), ["run 4"]);
    assert!(rig.0.reads_on(PARTITION), "it must be looked back");
    assert_eq!(rig.floor(), 0, "5 was closed after the read that saw all of it");
    rig.end(4, Outcome::Done);

    let read = rig.0.fresh(&[PARTITION], Numbers { closed: 5, given: 5 }).unwrap();
    assert_eq!(begins(&read), 0);
    assert_eq!(told(rig.0.answer(read, vec![of(1, "order-19"), of(5, "order-19")])), ["run 1"]);
    assert!(!rig.0.reads_on(PARTITION));
}

/// O1: a backlog is read from what is passed again when it is time, when a read has failed, and from where something
/// went back.
#[test]
fn reading_on_ends_when_something_went_back() {
    let limits = Limits { events: 2, unrecorded: 100, of_key: 10 };
    let begin = |act: fn(&mut Rig)| {
        let mut rig = Rig::with(Order::Release, limits, holding(), &[]);
        let numbers = Numbers { closed: 0, given: 9 };
        let read = rig.0.fresh(&[PARTITION], numbers).unwrap();
        rig.0.answer(read, vec![of(2, "order-17"), of(3, "order-18")]);
        act(&mut rig);
        rig.0.fresh(&[PARTITION], numbers).unwrap().visits()[0].floor
    };

    let done = |rig: &mut Rig| {
        rig.end(2, Outcome::Done);
        rig.end(3, Outcome::Done);
    };
    assert_eq!(begin(done), 3);
    assert_eq!(
        begin(|rig| {
            rig.end(2, Outcome::Done);
            rig.end(3, Outcome::Done);
            rig.0.look_back();
        }),
        0
    );
    assert_eq!(
        begin(|rig| {
            rig.end(2, Outcome::Done);
            rig.end(3, Outcome::Done);
            let read = rig.0.fresh(&[PARTITION], Numbers { closed: 0, given: 9 }).unwrap();
            rig.0.fail(read);
        }),
        0
    );
    assert_eq!(
        begin(|rig| {
            rig.end(2, Outcome::Done);
            rig.end(3, Outcome::Released);
            rig.record([3]);
        }),
        2
    );
}

/// A read goes on behind what is closed and in flight, and names only what is in flight above that.
#[test]
fn read_goes_on_behind_what_is_in_flight() {
    let mut rig = Rig::new(Order::Release);
    let read = rig.0.fresh(&[PARTITION], closed(4)).unwrap();
    rig.0.answer(read, vec![of(3, "order-17"), of(4, "order-17"), of(6, "order-17")]);

    let read = rig.0.fresh(&[PARTITION], closed(50)).unwrap();
    assert_eq!((read.visits()[0].floor, &*read.visits()[0].in_flight), (4, &[6][..]));
    rig.0.answer(read, vec![]);
    assert_eq!(rig.floor(), 2);

    rig.end(3, Outcome::Released);
    rig.record([3]);
    let read = rig.0.fresh(&[PARTITION], closed(50)).unwrap();
    assert_eq!(
        (read.visits()[0].floor, &*read.visits()[0].in_flight),
        (2, &[][..]),
        "all of the key is read again"
    );
}

/// D7, D12: what is being recorded leaves room for others, within its own limit.
#[test]
fn events_are_read_while_others_are_recorded() {
    let limits = Limits { events: 2, unrecorded: 3, of_key: 2 };
    let mut rig = Rig::with(Order::Release, limits, holding(), &[]);
    rig.fetch(vec![fetched(OURS, 1, None), fetched(OURS, 2, None)]);
    assert_eq!(rig.0.room(), 0);

    rig.end(1, Outcome::Done);
    rig.end(2, Outcome::Done);
    assert_eq!(rig.0.room(), 2);
    rig.fetch(vec![fetched(OURS, 3, None), fetched(OURS, 4, None)]);
    rig.end(3, Outcome::Done);
    rig.end(4, Outcome::Done);
    assert_eq!(rig.0.room(), 1, "five may be in flight in all");

    rig.record([1, 2, 3]);
    assert_eq!(rig.0.room(), 2);
}

/// A read that was cut off by its limit has not seen what comes after.
#[test]
fn full_read_raises_the_floor_to_its_end() {
    let limits = Limits { events: 2, unrecorded: 0, of_key: 2 };
    let mut rig = Rig::with(Order::Release, limits, holding(), &left_behind());

    rig.fetch(vec![of(3, "order-17"), of(4, "order-17")]);
    assert_eq!(rig.floor(), 2);

    rig.record([3, 4]);
    rig.fetch(vec![of(7, "order-17"), of(8, "order-17")]);
    rig.record([7, 8]);
    assert_eq!(rig.floor(), 6);
}

/// No loss: an event that goes back to the table while a read passes it by keeps the floor below it.
#[test]
fn floor_stays_below_what_went_back() {
    let mut rig = Rig::new(Order::Release);
    rig.fetch(vec![fetched(OURS, 4, None)]);
    rig.end(4, Outcome::Released);
    let read = rig.0.fresh(&[PARTITION], closed(50)).unwrap();
    assert!(passes(&read, 4));

    rig.record([4]);
    rig.0.answer(read, vec![]);

    assert_eq!(rig.floor(), 3);
    assert_eq!(rig.fetch(vec![fetched(OURS, 4, None)]), ["run 4"]);
}

/// An event that is found below the floor is delivered as it should have been.
#[test]
fn event_below_the_floor_runs() {
    let mut rig = Rig::new(Order::Release);
    let read = rig.0.fresh(&[PARTITION], closed(50)).unwrap();
    rig.0.answer(read, vec![]);

    let read = rig.0.below(&[PARTITION]).unwrap();
    let steps = rig.0.answer(read, vec![of(9, "order-17"), of(10, "order-17")]);

    assert_eq!(told(steps), ["run 9"]);
    assert_eq!(rig.floor(), 50);
}

/// An event that kills the process takes no neighbour with it: after the second crash those that may be to blame run
/// one by one, each recorded before the next, in all partitions together.
#[test]
fn suspects_run_one_by_one() {
    let crashed = Holding { crashes: 2, suspect_to: 3, ..holding() };
    let limits = Limits { events: 100, unrecorded: 0, of_key: 10 };
    let mut rig = Rig::with(Order::Release, limits, crashed, &[]);
    let other = Token::of_partition(8, EPOCH);
    rig.0.take_over(&Holding { partition: 8, ..crashed }, &[]);

    let fresh = vec![fetched(OURS, 1, None), of(2, "order-17"), of(4, "order-18")];
    assert_eq!(rig.fetch(fresh), ["run 4", "run 1 alone"]);
    let read = rig.0.fresh(&[8], closed(9)).unwrap();
    assert_eq!(told(rig.0.answer(read, vec![fetched(other, 3, None)])), [""; 0]);

    assert_eq!(rig.end(1, Outcome::Done), ["done 1"]);
    assert_eq!(rig.record([1]), ["run 2 alone"]);
    assert_eq!(rig.end(2, retry()), ["retry 2"]);
    assert_eq!(rig.record([2]), ["run 3 alone"]);
}

/// One crash may be anybody's fault; and an absolved partition runs as usual.
#[test]
fn one_crash_and_absolution_leave_no_suspects() {
    let limits = Limits { events: 100, unrecorded: 0, of_key: 10 };
    let once = Holding { crashes: 1, suspect_to: 9, ..holding() };
    let mut rig = Rig::with(Order::Release, limits, once, &[]);
    assert_eq!(rig.fetch(vec![fetched(OURS, 1, None), fetched(OURS, 2, None)]), ["run 1", "run 2"]);

    let mut rig = Rig::with(Order::Release, limits, Holding { crashes: 5, ..once }, &[]);
    rig.0.absolve(PARTITION);
    assert_eq!(rig.fetch(vec![fetched(OURS, 1, None), fetched(OURS, 2, None)]), ["run 1", "run 2"]);
}

/// The loss of the partition of a suspect that runs lets the others go on.
#[test]
fn suspect_of_a_lost_partition_holds_no_other() {
    let crashed = Holding { crashes: 2, suspect_to: 3, ..holding() };
    let limits = Limits { events: 100, unrecorded: 0, of_key: 10 };
    let mut rig = Rig::with(Order::Release, limits, crashed, &[]);
    rig.0.take_over(&Holding { partition: 8, ..crashed }, &[]);
    rig.fetch(vec![fetched(OURS, 1, None)]);

    rig.0.lose(PARTITION);

    let read = rig.0.fresh(&[8], closed(9)).unwrap();
    let steps = rig.0.answer(read, vec![fetched(Token::of_partition(8, EPOCH), 2, None)]);
    assert_eq!(told(steps), ["run 2 alone"]);
}
