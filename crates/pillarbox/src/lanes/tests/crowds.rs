//! Whether others wait behind a key that has too many events.

use super::*;

const HOT: &str = "order-17";

/// The events of the hot key with these numbers.
fn hot(seqs: std::ops::RangeInclusive<i64>) -> Vec<Fetched> {
    seqs.map(|seq| of(seq, HOT)).collect()
}

/// A partition in which a key has too many events: 1 runs, 2 and 3 wait, 4 and what follows is left in the table.
fn crowded() -> Rig {
    let limits = Limits { events: 6, unrecorded: 0, of_key: 2 };
    let mut rig = Rig::with(Order::Release, limits, holding(), &[]);
    let read = rig.0.fresh(&[PARTITION], closed(0)).unwrap();
    assert_eq!(told(rig.0.answer(read, hot(1..=5))), ["run 1"]);
    rig
}

/// Where the next stretch of a look begins.
fn begins(rig: &mut Rig, numbers: Numbers) -> i64 {
    let read = rig.0.behind(PARTITION, numbers).unwrap();
    let begins = read.visits()[0].floor;
    rig.0.fail(read);
    begins
}

/// O6: nothing of a hot key is written twice while nobody waits behind it, however long it takes.
#[test]
fn key_that_is_alone_is_left_where_it_is() {
    let mut rig = crowded();

    assert!(rig.look(closed(9), hot(4..=6)));
    assert!(rig.0.is_looking(PARTITION), "more may be behind a full stretch");
    assert!(rig.look(closed(9), hot(7..=8)));
    assert!(!rig.0.is_looking(PARTITION));

    rig.end(1, Outcome::Done);
    rig.end(2, Outcome::Done);
    assert_eq!(rig.fetch(hot(4..=5)), [""; 0]);
}

/// A look reads on from stretch to stretch, and brings no more than there is room for.
#[test]
fn look_goes_on_from_stretch_to_stretch() {
    let mut rig = crowded();
    assert!(rig.0.behind(8, closed(0)).is_none(), "this partition is not here");

    let read = rig.0.behind(PARTITION, closed(0)).unwrap();
    let visit = &read.visits()[0];
    assert_eq!((visit.floor, &*visit.in_flight, read.limit()), (0, &[1, 2, 3][..], 3));
    assert_eq!(rig.0.room(), 0);
    rig.0.answer(read, hot(4..=6));
    assert_eq!((rig.0.room(), rig.floor()), (3, 0));

    let read = rig.0.behind(PARTITION, closed(0)).unwrap();
    assert_eq!((read.visits()[0].floor, &*read.visits()[0].in_flight), (6, &[][..]));
    assert!(rig.0.fresh(&[PARTITION], closed(0)).is_none(), "the partition is being read");
    rig.0.answer(read, vec![]);
    assert!(!rig.0.is_looking(PARTITION));
}

/// Guarantee 7: whoever is not of the key passes it: other keys, events without one, and those that wait for their time.
#[test]
fn others_are_whoever_does_not_wait_for_the_key() {
    for other in [of(6, "order-18"), fetched(OURS, 6, None), in_an_hour(of(6, HOT))] {
        let mut rig = crowded();

        assert!(!rig.look(closed(0), hot(4..=5).into_iter().chain([other]).collect()));

        assert!(rig.0.behind(PARTITION, closed(0)).is_none(), "it is known");
        assert_eq!(rig.fetch(hot(4..=5)), ["aside 4", "aside 5"]);
    }
}

/// Guarantee 7: a look begins anew where somebody may have appeared meanwhile, and not before.
#[test]
fn next_look_begins_where_somebody_can_appear() {
    let mut rig = crowded();
    rig.look(closed(5), hot(4..=6));
    rig.look(closed(9), vec![of(8, HOT)]);
    assert_eq!(begins(&mut rig, closed(9)), 5, "when the look began no more was closed");

    rig.look(closed(9), vec![of(8, HOT)]);
    assert_eq!(begins(&mut rig, closed(9)), 9);
}

/// Guarantee 7: an event of another key that goes back to the table is seen by the look that has passed it.
#[test]
fn look_sees_what_went_back_behind_it() {
    let taken = || {
        let mut rig = crowded();
        let read = rig.0.fresh(&[PARTITION], closed(0));
        assert!(read.is_none());
        rig.end(1, Outcome::Done);
        rig.end(2, Outcome::Done);
        let read = rig.0.fresh(&[PARTITION], closed(0)).unwrap();
        assert_eq!(told(rig.0.answer(read, vec![of(4, HOT), of(5, "order-18")])), ["run 5"]);
        rig.end(5, Outcome::Released);
        assert!(rig.0.is_crowded(PARTITION));
        rig
    };

    // Between two looks.
    let mut rig = taken();
    rig.look(closed(9), vec![]);
    rig.record([5]);
    assert_eq!(begins(&mut rig, closed(9)), 4);

    // Between two stretches.
    let mut rig = taken();
    rig.look(closed(9), hot(6..=8));
    rig.record([5]);
    assert_eq!(begins(&mut rig, closed(9)), 4);

    // Within one.
    let mut rig = taken();
    let read = rig.0.behind(PARTITION, closed(9)).unwrap();
    rig.record([5]);
    rig.0.answer(read, hot(6..=6));
    assert!(rig.0.is_looking(PARTITION));
    assert_eq!(begins(&mut rig, closed(9)), 4);
}

/// A stretch that brought nothing says nothing.
#[test]
fn failed_look_begins_anew() {
    let mut rig = crowded();
    rig.look(closed(9), hot(4..=6));

    let read = rig.0.behind(PARTITION, closed(9)).unwrap();
    rig.0.fail(read);

    assert!(rig.0.is_crowded(PARTITION) && !rig.0.is_looking(PARTITION));
    assert_eq!(begins(&mut rig, closed(9)), 6);
}
