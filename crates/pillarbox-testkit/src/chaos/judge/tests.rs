//! Histories made by hand: each that is wrong is refused, and each that is right is accepted.

use super::super::history::TOLD_LATE;
use super::*;

const SECOND: Moment = 1_000_000_000;
const MILLI: Moment = 1_000_000;

/// Processes.
const P: u32 = 17;
const Q: u32 = 18;

/// A history in milliseconds, told line by line.
#[derive(Default)]
struct Told(History, u64);

impl Told {
    /// An event of `order-17` that was committed in the millisecond after it was inserted.
    fn written(mut self, id: &str, at: Moment) -> Self {
        self.hear(1, &format!("insert {id} order-17 {}", at * MILLI));
        self.hear(1, &format!("commit {id} order-17 {}", (at + 1) * MILLI));
        self
    }

    /// A delivery with its end, if it has one.
    fn delivered(mut self, id: &str, pid: u32, began: Moment, end: Option<(&str, Moment)>) -> Self {
        self.1 += 1;
        let number = self.1;
        self.hear(pid, &format!("deliver {id} order-17 {} {number}", began * MILLI));
        if let Some((how, at)) = end {
            self.hear(pid, &format!("{how} {id} order-17 {} {number}", at * MILLI));
        }
        self
    }

    fn done(self, id: &str, pid: u32, began: Moment, at: Moment) -> Self {
        self.delivered(id, pid, began, Some(("done", at)))
    }

    fn failed(self, id: &str, pid: u32, began: Moment, at: Moment) -> Self {
        self.delivered(id, pid, began, Some(("failed", at)))
    }

    fn cut_off(self, id: &str, pid: u32, began: Moment, at: Moment) -> Self {
        self.delivered(id, pid, began, Some(("cut", at)))
    }

    fn killed(mut self, pid: u32, at: Moment) -> Self {
        self.0.disturbed(pid, How::Killed, at * MILLI, at * MILLI);
        self
    }

    fn frozen(mut self, pid: u32, from: Moment, to: Moment) -> Self {
        self.0.disturbed(pid, How::Frozen, from * MILLI, to * MILLI);
        self
    }

    /// It tells that it has lost its lease.
    fn lost(mut self, pid: u32, at: Moment) -> Self {
        self.hear(pid, &format!("lost - - {}", at * MILLI));
        self
    }

    /// It tells that nothing was heard of it.
    fn silent(mut self, pid: u32, from: Moment, to: Moment) -> Self {
        self.hear(pid, &format!("silent - - {} {}", to * MILLI, from * MILLI));
        self
    }

    fn hear(&mut self, pid: u32, line: &str) {
        self.0.hear(pid, &[line.to_owned()]);
    }

    /// How many are lost, ghosts, out of order, beside each other, and delivered again without a cause.
    fn wrongs(&self) -> [usize; 5] {
        let verdict = self.0.judge();
        let unexplained = verdict.unexplained().count();
        [
            verdict.lost.len(),
            verdict.ghosts.len(),
            verdict.out_of_order.len(),
            verdict.beside.len(),
            unexplained,
        ]
    }

    #[track_caller]
    fn is_right(&self) {
        assert_eq!(self.wrongs(), [0; 5], "{:?}", self.0.judge());
    }
}

/// Nothing but one event, committed and not delivered yet.
fn one() -> Told {
    Told::default().written("head", 1_000)
}

/// Two events, the second inserted after the first was committed.
fn two() -> Told {
    one().written("follower", 1_010)
}

const LOST: [usize; 5] = [1, 0, 0, 0, 0];
const GHOST: [usize; 5] = [0, 1, 0, 0, 0];
const OUT_OF_ORDER: [usize; 5] = [0, 0, 1, 0, 0];
const BESIDE: [usize; 5] = [0, 0, 0, 1, 0];
const UNEXPLAINED: [usize; 5] = [0, 0, 0, 0, 1];

#[test]
fn each_in_turn_is_right() {
    two().done("head", P, 1_020, 1_025).done("follower", P, 1_026, 1_027).is_right();
}

#[test]
fn failures_that_come_again_are_no_duplicates() {
    let told = two().failed("head", P, 1_020, 1_025).done("head", P, 1_080, 1_081);
    let told = told.done("follower", P, 1_082, 1_083);

    told.is_right();
    let verdict = told.0.judge();
    assert_eq!((verdict.retries, verdict.duplicates.len()), (1, 0));
}

#[test]
fn event_that_never_began_is_lost() {
    assert_eq!(one().wrongs(), LOST);
}

#[test]
fn event_that_never_succeeded_is_lost() {
    assert_eq!(one().failed("head", P, 1_020, 1_025).wrongs(), LOST);
    assert_eq!(one().cut_off("head", P, 1_020, 1_025).wrongs(), LOST);
    assert_eq!(one().delivered("head", P, 1_020, None).killed(P, 1_030).wrongs(), LOST);
}

/// What was delivered by one who died is owed again if its successor fails with it.
#[test]
fn event_that_had_to_come_again_after_a_success_is_lost() {
    let told = one().done("head", P, 1_020, 1_021).killed(P, 1_021).failed("head", Q, 3_000, 3_001);

    assert_eq!(told.wrongs(), LOST);
}

/// What one that was asleep still begins counts for nothing.
#[test]
fn failure_of_one_that_was_asleep_loses_nothing() {
    let told = one().done("head", Q, 3_000, 3_001).frozen(P, 1_010, 4_000);

    told.failed("head", P, 4_001, 4_002).is_right();
}

#[test]
fn delivery_without_a_commit_is_a_ghost() {
    let mut told = Told::default();
    told.hear(1, &format!("insert head order-17 {SECOND}"));
    told.hear(1, &format!("rollback head order-17 {SECOND}"));

    assert_eq!(told.done("head", P, 1_020, 1_021).wrongs(), GHOST);
}

#[test]
fn rollback_that_nobody_delivers_is_right() {
    let mut told = Told::default();
    told.hear(1, &format!("insert head order-17 {SECOND}"));
    told.hear(1, &format!("rollback head order-17 {SECOND}"));

    told.is_right();
}

#[test]
fn follower_before_its_head_is_out_of_order() {
    let told = two().done("follower", P, 1_020, 1_021).done("head", P, 1_022, 1_023);

    assert_eq!(told.wrongs(), OUT_OF_ORDER);
}

#[test]
fn events_whose_transactions_overlap_have_no_order() {
    let told = one().written("beside", 1_000);

    told.done("beside", P, 1_020, 1_021).done("head", P, 1_022, 1_023).is_right();
}

#[test]
fn follower_between_failure_and_success_of_its_head_is_out_of_order() {
    let told = two().failed("head", P, 1_020, 1_025).done("follower", P, 1_030, 1_031);

    assert_eq!(told.done("head", P, 1_080, 1_081).wrongs(), OUT_OF_ORDER);
}

/// Whoever takes over delivers the head first, so a lost lease is no excuse.
#[test]
fn follower_without_any_success_of_its_head_is_out_of_order_whatever_was_lost() {
    let told = two().failed("head", P, 1_020, 1_025).killed(P, 1_030).done("follower", Q, 3_000, 3_001);

    assert_eq!(told.done("head", Q, 3_002, 3_003).wrongs(), OUT_OF_ORDER);
}

#[test]
fn late_duplicate_of_a_head_may_follow_its_follower_after_a_lost_lease() {
    let told = two().done("head", P, 1_020, 1_021).done("follower", P, 1_022, 1_023).frozen(P, 1_024, 4_000);

    told.done("head", Q, 3_000, 3_001).done("follower", Q, 3_002, 3_003).is_right();
}

/// The head was recorded before its process died, though another had begun with it.
#[test]
fn follower_need_not_wait_for_another_delivery_of_its_head_if_a_lease_was_lost() {
    let told = two().done("head", P, 1_020, 1_021).frozen(P, 1_022, 4_000);

    told.failed("head", Q, 3_000, 3_001)
        .done("follower", Q, 3_010, 3_011)
        .done("head", Q, 3_060, 3_061)
        .is_right();
}

/// A head that comes again for no reason is to be waited for like any other.
#[test]
fn follower_between_two_deliveries_of_its_head_is_out_of_order() {
    let told = two().done("head", P, 1_020, 1_021).failed("head", P, 1_022, 1_023);
    let told = told.done("follower", P, 1_030, 1_031).done("head", P, 1_080, 1_081);

    assert_eq!(told.wrongs(), [0, 0, 1, 0, 1]);
}

#[test]
fn deliveries_of_a_key_beside_each_other_are_refused() {
    let told = one().written("beside", 1_000);

    let told = told.done("head", P, 1_020, 1_040).done("beside", P, 1_030, 1_035);

    assert_eq!(told.wrongs(), BESIDE);
}

#[test]
fn delivery_that_began_beside_one_of_the_dead_is_right() {
    let told = one().written("beside", 1_000).delivered("head", P, 1_020, None).killed(P, 1_030);

    told.done("head", Q, 3_000, 3_001).done("beside", Q, 3_002, 3_003).is_right();
}

#[test]
fn deliveries_beside_each_other_are_right_once_a_lease_was_lost() {
    let told = one().written("beside", 1_000).frozen(P, 1_025, 4_000).cut_off("head", P, 1_020, 4_001);

    told.done("head", Q, 3_000, 3_001).done("beside", Q, 3_002, 3_003).is_right();
}

#[test]
fn deliveries_without_a_key_are_beside_each_other_as_they_like() {
    let mut told = Told::default();
    for (number, id) in ["one", "other"].into_iter().enumerate() {
        told.hear(1, &format!("insert {id} - {SECOND}"));
        told.hear(1, &format!("commit {id} - {SECOND}"));
        told.hear(P, &format!("deliver {id} - {} {number}", 2 * SECOND));
        told.hear(P, &format!("done {id} - {} {number}", 3 * SECOND));
    }

    told.is_right();
}

#[test]
fn duplicate_without_a_cause_is_refused() {
    assert_eq!(one().done("head", P, 1_020, 1_021).done("head", Q, 1_500, 1_501).wrongs(), UNEXPLAINED);
}

#[test]
fn duplicate_names_its_cause() {
    let told = one().done("head", P, 1_020, 1_021).killed(P, 1_022).done("head", Q, 3_000, 3_001);

    told.is_right();
    assert_eq!(
        told.0.judge().duplicates[0].to_string(),
        "head: process 17 as its delivery 1, done; again 1980 ms later by process 18 as its delivery 2; \
         cause: process 17 was killed"
    );
}

#[test]
fn what_happens_after_the_next_delivery_began_is_no_cause() {
    let twice = || one().done("head", P, 1_020, 1_021).done("head", Q, 3_000, 3_001);

    assert_eq!(twice().killed(P, 3_010).wrongs(), UNEXPLAINED);
    assert_eq!(twice().frozen(P, 3_010, 6_010).wrongs(), UNEXPLAINED);
    assert_eq!(twice().lost(P, 3_001 + TOLD_LATE / MILLI).wrongs(), UNEXPLAINED);
}

#[test]
fn what_was_over_before_the_delivery_began_is_no_cause() {
    let told = one().frozen(P, 100, 900).done("head", P, 1_020, 1_021).done("head", P, 3_000, 3_001);

    assert_eq!(told.wrongs(), UNEXPLAINED);
}

#[test]
fn what_happens_to_others_is_no_cause() {
    let told = one().done("head", P, 1_020, 1_021).killed(19, 1_022).done("head", Q, 3_000, 3_001);

    assert_eq!(told.wrongs(), UNEXPLAINED);
}

/// By then it is recorded.
#[test]
fn death_long_after_a_success_is_no_cause() {
    let told = one().done("head", P, 1_020, 1_021).killed(P, 60_000).done("head", Q, 62_000, 62_001);

    assert_eq!(told.wrongs(), UNEXPLAINED);
}

#[test]
fn lost_lease_may_be_told_a_little_late() {
    one().done("head", P, 1_020, 1_021).done("head", Q, 3_000, 3_001).lost(P, 3_400).is_right();
}

#[test]
fn failure_after_another_has_begun_is_no_retry() {
    let told = || one().failed("head", P, 1_020, 3_010).done("head", Q, 3_000, 3_001);

    assert_eq!(told().wrongs(), [0, 0, 0, 1, 1]);
    told().frozen(P, 1_021, 3_009).is_right();
}

#[test]
fn cut_off_needs_a_cause_that_lies_before_it() {
    let told = || one().cut_off("head", P, 1_020, 2_900).done("head", Q, 3_000, 3_001);

    assert_eq!(told().wrongs(), UNEXPLAINED);
    assert_eq!(told().killed(P, 2_950).wrongs(), UNEXPLAINED);
    assert_eq!(told().killed(P, 2_850).wrongs(), UNEXPLAINED, "the dead cut nothing off");
    assert_eq!(told().frozen(P, 2_950, 5_950).wrongs(), UNEXPLAINED);
    told().frozen(P, 1_021, 2_890).is_right();
    told().silent(P, 1_015, 2_910).is_right();
}

#[test]
fn one_that_was_asleep_may_deliver_once_more() {
    let told = one().done("head", Q, 3_000, 3_001).done("head", P, 4_001, 4_002);

    assert_eq!(told.wrongs(), UNEXPLAINED);
    told.frozen(P, 1_010, 4_000).is_right();
}

#[test]
fn silence_that_goes_on_is_one() {
    let told = one().silent(P, 1_000, 2_600).silent(P, 1_000, 2_620).silent(P, 9_000, 9_900);

    assert_eq!(told.0.disturbances.len(), 2);
}

#[test]
fn dead_rows_are_counted() {
    let mut told = one().done("head", P, 1_020, 1_021);
    told.0.dead = 1;

    assert_eq!(told.0.judge().dead, 1);
}
