//! Owned partitions: hints of other processes that name them.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use pillarbox::{Delivery, MemoryStore, Outbox, PARTITIONS, PartitionSet};

use crate::faults::{Faults, FaultyStore};
use crate::stage::{HOUR, MILLISECOND, Notes, SECOND, Stage, placing, write};

/// An instance that is told by hand, and another with which it shares the partitions.
struct Pair {
    stage: Stage,
    outbox: Outbox<FaultyStore>,
    faults: Arc<Faults>,
    seen: Notes<Delivery>,
    _other: Outbox<MemoryStore>,
}

impl Pair {
    /// Both have what is theirs, and nothing is to be read for a while.
    async fn settled() -> Self {
        let (stage, seen) = (Stage::set(), Notes::<Delivery>::new());
        let other = stage.outbox().ordered().poll_every(HOUR).on("OrderPlaced", seen.listener());
        let (builder, faults) = stage.faulty();
        let outbox = builder.ordered().poll_every(HOUR).on("OrderPlaced", seen.listener()).start().unwrap();
        let other = other.start().unwrap();
        stage.pass(57 * SECOND).await;
        assert_eq!(outbox.partitions().len(), PARTITIONS / 2);
        faults.announced.lock().unwrap().clear();
        Self { stage, outbox, faults, seen, _other: other }
    }

    /// What the instance owns.
    fn ours(&self) -> PartitionSet {
        self.outbox.partitions().iter().map(|floor| floor.partition).collect()
    }

    /// What the other one owns.
    fn theirs(&self) -> PartitionSet {
        let ours = self.ours();
        (0..=u8::MAX).filter(|&partition| !ours.contains(partition)).collect()
    }

    /// An order whose partition is one of these, and the partition.
    fn order_in(&self, partitions: PartitionSet) -> (String, PartitionSet) {
        let orders = (0..).map(|number| format!("order-{number}"));
        let mut placed = orders.map(|order| (pillarbox::partition_of(&order), order));
        let (partition, order) = placed.find(|(partition, _)| partitions.contains(*partition)).unwrap();
        (order, [partition].into_iter().collect())
    }

    /// What is visited, and how often is read at all, when another process tells of these partitions.
    async fn told(&self, partitions: PartitionSet) -> (Vec<PartitionSet>, u32) {
        self.faults.visited.lock().unwrap().clear();
        let before = self.faults.read.load(Ordering::Relaxed);
        self.faults.tell(partitions);
        self.stage.pass(MILLISECOND).await;
        let visited = self.faults.visited.lock().unwrap().clone();
        (visited, self.faults.read.load(Ordering::Relaxed) - before)
    }
}

/// P5, O6: a hint that names partitions of others makes no read at all.
#[tokio::test(start_paused = true)]
async fn hint_for_anothers_partition_makes_no_read() {
    let pair = Pair::settled().await;

    assert_eq!(pair.told(pair.theirs()).await, (Vec::new(), 0));
}

/// P5, O6: of the partitions that a hint names, those that are owned are visited, and no others.
#[tokio::test(start_paused = true)]
async fn hint_is_followed_where_it_names_what_is_owned() {
    let pair = Pair::settled().await;
    let (order, ours) = pair.order_in(pair.ours());
    let (_, mut hint) = pair.order_in(pair.theirs());
    hint |= ours;
    pair.stage.pending(&[&order]).await;

    assert_eq!(pair.told(hint).await.0, [ours]);
    assert_eq!(pair.seen.ids(), [order]);
}

/// P5: a hint that names nothing in particular visits all that is owned.
#[tokio::test(start_paused = true)]
async fn hint_that_names_all_visits_what_is_owned() {
    let pair = Pair::settled().await;

    assert_eq!(pair.told(PartitionSet::ALL).await.0, [pair.ours()]);
}

/// P5: hints for several partitions that come together are one read.
#[tokio::test(start_paused = true)]
async fn hints_are_followed_together() {
    let pair = Pair::settled().await;
    let some: Vec<u8> = pair.ours().iter().take(3).collect();

    some.iter().for_each(|partition| pair.faults.tell([*partition].into_iter().collect()));
    let (visited, _) = pair.told(PartitionSet::default()).await;

    assert_eq!(visited, [some.into_iter().collect()]);
}

/// P5, O6: a commit tells others of their partitions, and this instance of its own.
#[tokio::test(start_paused = true)]
async fn commit_names_to_others_what_is_theirs() {
    let pair = Pair::settled().await;
    let (ours, _) = pair.order_in(pair.ours());
    let (theirs, named) = pair.order_in(pair.theirs());

    write(&pair.outbox, placing(&ours)).await;
    pair.stage.pass(MILLISECOND).await;
    assert_eq!(pair.seen.ids(), [ours]);
    assert_eq!(pair.faults.announced.lock().unwrap()[..], []);
    write(&pair.outbox, placing(&theirs)).await;
    pair.stage.pass(MILLISECOND).await;

    assert_eq!(pair.faults.announced.lock().unwrap()[..], [named]);
}

/// P5: losing every hint costs the time to the next poll, and nothing else.
#[tokio::test(start_paused = true)]
async fn events_without_a_hint_are_found_by_the_poll() {
    let (stage, seen) = (Stage::set(), Notes::<Delivery>::new());
    let start = || stage.outbox().ordered().on("OrderPlaced", seen.listener()).start().unwrap();
    let (first, second) = (start(), start());
    stage.pass(57 * SECOND).await;

    for order in 1..=64 {
        write(&first, placing(&format!("order-{order}"))).await;
    }
    stage.pass(MILLISECOND).await;
    let at_once = seen.len();
    stage.pass(5 * SECOND).await;

    assert!((1..64).contains(&at_once), "{at_once}: only those of the writer itself");
    assert_eq!((seen.len(), seen.distinct().len()), (64, 64));
    assert_eq!(first.counts().done + second.counts().done, 64);
}

/// O5: giving partitions back is no hint: nobody owns them, and who wants them asks with its heartbeat.
#[tokio::test(start_paused = true)]
async fn partitions_that_are_given_back_are_no_hint() {
    let pair = Pair::settled().await;

    pair.outbox.close().await;
    pair.stage.quiet().await;

    assert_eq!(*pair.faults.announced.lock().unwrap(), []);
}

/// O5, P1: a read that fails after its partitions were lost leaves nothing behind that a poll would wait for.
#[tokio::test(start_paused = true)]
async fn failed_read_of_lost_partitions_is_forgotten() {
    let pair = Pair::settled().await;
    let lost = pair.ours();
    let fetching = pair.faults.fetching.lock().await;
    assert_eq!(pair.told(PartitionSet::ALL).await.0, [lost]);

    pair.faults.members.next(u32::MAX);
    pair.stage.pass(60 * SECOND).await;
    pair.faults.members.next(0);
    pair.stage.pass(SECOND).await;
    assert_eq!(pair.outbox.partitions(), [], "the other has taken them");
    pair.faults.reads.next(1);
    drop(fetching);
    pair.stage.pass(SECOND).await;

    tokio::select! {
        biased;
        polled = pair.outbox.poll() => polled.unwrap(),
        () = pair.stage.pass(SECOND) => panic!("nothing is there to be read"),
    }
    assert_eq!(pair.outbox.partitions(), [], "they are still the other's");
}
