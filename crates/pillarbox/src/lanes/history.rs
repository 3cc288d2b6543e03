//! Random histories of lanes over a small table, checked after every step.

mod table;
mod world;

use proptest::prelude::*;

use self::world::{Ending, World};
use super::{Limits, Order};

/// Something that happens. Numbers choose among what there is at that moment; if there is nothing, nothing happens.
#[derive(Clone, Copy, Debug)]
enum Act {
    Insert {
        key: Option<u8>,
        delay: u64,
    },
    Commit(usize),
    RollBack(usize),
    Fetch,
    Due,
    Key,
    Parked,
    Below,
    Behind(u8),
    LookBack,
    /// The statement of a read under way sees the table now.
    Look(usize),
    Answer(usize),
    Fail(usize),
    End(usize, Ending),
    /// The store applies a settlement, and says so at once or later.
    Settle(usize, bool),
    Tell(usize),
    GiveUp(usize),
    /// The store applies a settlement, and the answer is lost.
    LoseAnswer(usize),
    Pass(u64),
    Beat,
    Replay(usize),
    Skip(usize),
    Crash(u8),
    HandOver(u8),
}

fn act() -> impl Strategy<Value = Act> {
    let any = any::<usize>;
    let ending = prop_oneof![
        6 => Just(Ending::Done),
        2 => (0..4u64).prop_map(Ending::Retry),
        1 => (0..4u64).prop_map(Ending::Held),
        1 => Just(Ending::Dead),
        1 => Just(Ending::Released),
    ];
    prop_oneof![
        30 => (prop::option::weighted(0.9, 0..4u8), prop_oneof![9 => Just(0), 1 => 1..4u64])
            .prop_map(|(key, delay)| Act::Insert { key, delay }),
        30 => any().prop_map(Act::Commit),
        2 => any().prop_map(Act::RollBack),
        24 => Just(Act::Fetch),
        10 => Just(Act::Due),
        12 => Just(Act::Key),
        3 => Just(Act::Parked),
        1 => Just(Act::Below),
        12 => (0..2u8).prop_map(Act::Behind),
        2 => Just(Act::LookBack),
        10 => any().prop_map(Act::Look),
        40 => any().prop_map(Act::Answer),
        2 => any().prop_map(Act::Fail),
        40 => (any(), ending).prop_map(|(which, ending)| Act::End(which, ending)),
        40 => (any(), prop::bool::weighted(0.8)).prop_map(|(which, told)| Act::Settle(which, told)),
        12 => any().prop_map(Act::Tell),
        1 => any().prop_map(Act::GiveUp),
        1 => any().prop_map(Act::LoseAnswer),
        10 => (1..3u64).prop_map(Act::Pass),
        6 => Just(Act::Beat),
        2 => any().prop_map(Act::Replay),
        2 => any().prop_map(Act::Skip),
        2 => (0..2u8).prop_map(Act::Crash),
        2 => (0..2u8).prop_map(Act::HandOver),
    ]
}

impl World {
    fn act(&mut self, act: Act) {
        match act {
            Act::Insert { key, delay } => self.table.insert(key, delay),
            Act::Commit(which) => self.table.end_transaction(which, true),
            Act::RollBack(which) => self.table.end_transaction(which, false),
            Act::Fetch => self.fetch(),
            Act::Due => self.due(),
            Act::Key => self.key(),
            Act::Parked => self.parked(),
            Act::Below => self.below(),
            Act::Behind(partition) => self.behind(partition),
            Act::LookBack => self.look_back(),
            Act::Look(which) => self.look(which),
            Act::Answer(which) => self.answer(which),
            Act::Fail(which) => self.fail(which),
            Act::End(which, ending) => self.end(which, ending),
            Act::Settle(which, is_told) => self.settle(which, is_told),
            Act::Tell(which) => self.tell(which),
            Act::GiveUp(which) => self.give_up(which),
            Act::LoseAnswer(which) => {
                self.settle(which, false);
                self.give_up(which);
            }
            Act::Pass(time) => self.table.now += time,
            Act::Beat => self.beat(),
            Act::Replay(which) => self.table.replay(which),
            Act::Skip(which) => self.table.skip(which),
            Act::Crash(partition) => self.crash(partition),
            Act::HandOver(partition) => self.hand_over(partition),
        }
        self.check_floors();
        self.check_memory();
    }
}

fn orders() -> impl Strategy<Value = Order> {
    prop_oneof![1 => Just(Order::None), 2 => Just(Order::GoOn), 4 => Just(Order::Release), 4 => Just(Order::Park)]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_500, max_shrink_iters: 20_000, ..ProptestConfig::default() })]

    /// O1, O2, O6: whatever happens, keys keep their order, floors pass nothing, nobody waits unseen
    /// behind a crowd, and everything comes to its end.
    #[test]
    fn histories_keep_every_promise(
        order in orders(),
        unrecorded in 0..12usize,
        of_key in 1..4usize,
        acts in prop::collection::vec(act(), 0..250),
    ) {
        let mut world = World::new(order, Limits { events: 12, unrecorded, of_key });

        for act in acts {
            world.act(act);
        }

        world.calm_down();
        world.check_that_only_blocked_keys_wait();
        world.finish();
    }
}
