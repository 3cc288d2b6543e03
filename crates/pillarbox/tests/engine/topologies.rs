//! Which parts run behind an outbox, and that outboxes share nothing.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use pillarbox::store::{Administration, Status};
use pillarbox::{Delivery, FanOut, Leased, Listeners, MemoryStore, Outbox, PollerHandler, Tx};
use pillarbox_testkit::acceptance::Desk;
use tracing::Level;

use crate::logs::Logs;
use crate::stage::{HOUR, Notes, SECOND, Stage, orders, placed, write, write_all};

fn is_shared<T: Send + Sync + Clone>() {}
fn is_sent<T: Send>() {}

/// W8: outbox and registries can be shared between threads and cloned; a transaction can be sent.
#[test]
fn outbox_and_registries_can_be_shared() {
    is_shared::<Outbox<MemoryStore>>();
    is_shared::<MemoryStore>();
    is_shared::<Listeners>();
    is_shared::<FanOut>();
    is_sent::<Tx<MemoryStore>>();
}

/// W8: two outboxes in one process share nothing.
#[tokio::test(start_paused = true)]
async fn two_outboxes_share_nothing() {
    let (orders, payments) = (Stage::set(), Stage::set());
    let (of_orders, of_payments) = (Notes::<Delivery>::new(), Notes::<Delivery>::new());
    let one = orders.outbox().on("OrderPlaced", of_orders.listener()).start().unwrap();
    let two = payments.outbox().on("OrderPlaced", of_payments.listener()).start().unwrap();

    write(&one, placed("order-1")).await;
    write(&two, placed("payment-1")).await;
    write(&two, placed("payment-2")).await;
    orders.quiet().await;
    one.close().await;
    write(&two, placed("payment-3")).await;
    orders.quiet().await;

    assert_eq!(of_orders.ids(), ["order-1"]);
    assert_eq!(of_payments.ids(), ["payment-1", "payment-2", "payment-3"]);
    assert_eq!((one.counts().done, two.counts().done), (1, 3));
    assert_eq!(orders.store.highest().await.unwrap(), 1);
}

/// W6: an outbox that only writes delivers nothing, and another one does.
#[tokio::test(start_paused = true)]
async fn writer_only_leaves_delivery_to_others() {
    let (stage, seen) = (Stage::set(), Notes::<Delivery>::new());
    let writer = stage.outbox().writer_only().start().unwrap();

    write(&writer, placed("order-1")).await;
    writer.poll().await.unwrap();
    stage.pass(HOUR).await;
    assert_eq!((seen.len(), stage.status("order-1").await), (0, Status::New));
    let _relay = stage.outbox().on("OrderPlaced", seen.listener()).poller_only().start().unwrap();
    stage.quiet().await;

    assert_eq!(seen.ids(), ["order-1"]);
}

/// W6: without a hot path rows are born unclaimed, and no drop is counted.
#[tokio::test(start_paused = true)]
async fn poller_only_claims_nothing_at_birth() {
    let (stage, seen) = (Stage::set(), Notes::<Delivery>::new());
    let outbox = stage.outbox().on("OrderPlaced", seen.listener()).poller_only().start().unwrap();

    write_all(&outbox, &orders(3)).await;
    stage.quiet().await;

    let counts = outbox.counts();
    assert_eq!((counts.hot_enqueued, counts.hot_dropped, counts.read_backs), (0, 0, 0));
    assert_eq!((counts.cold_enqueued, counts.done), (3, 3));
    assert!(!outbox.enqueue_hot(placed("order-4")));
}

/// A handler that keeps what it gets, as long as it has room.
#[derive(Clone)]
struct Shelf {
    kept: Arc<Mutex<VecDeque<Leased>>>,
    room: Arc<AtomicUsize>,
    accepts: usize,
    asked: Arc<AtomicUsize>,
}

impl Shelf {
    fn with_room(room: usize) -> Self {
        let room = Arc::new(AtomicUsize::new(room));
        Self { kept: Arc::default(), room, accepts: usize::MAX, asked: Arc::default() }
    }

    fn next(&self) -> Leased {
        self.kept.lock().unwrap().pop_front().expect("an event was handed over")
    }

    fn len(&self) -> usize {
        self.kept.lock().unwrap().len()
    }
}

impl PollerHandler for Shelf {
    fn capacity(&self) -> usize {
        self.room.load(Ordering::Relaxed).saturating_sub(self.len())
    }

    fn handle(&self, event: Leased) -> bool {
        self.asked.fetch_add(1, Ordering::Relaxed);
        let mut kept = self.kept.lock().unwrap();
        let accepted = kept.len() < self.accepts;
        if accepted {
            kept.push_back(event);
        }
        accepted
    }
}

/// P2: a handler of the user's own takes over the lease, and its settling counts.
#[tokio::test(start_paused = true)]
async fn own_handler_settles_what_it_took_over() {
    let (stage, shelf) = (Stage::set(), Shelf::with_room(100));
    let outbox = stage.outbox().poller_handler(shelf.clone()).start().unwrap();
    write_all(&outbox, &orders(4)).await;
    stage.quiet().await;

    assert_eq!(shelf.len(), 4);
    assert_eq!(stage.status("order-1").await, Status::New, "the poller never marks DONE");
    shelf.next().done().await;
    shelf.next().retry(60 * SECOND, "busy").await;
    shelf.next().dead("no such customer").await;
    shelf.next().release().await;
    stage.quiet().await;

    let mut ends = Vec::new();
    for order in orders(4) {
        let row = stage.row(&order).await;
        ends.push((row.status.unwrap(), row.attempts));
    }
    assert_eq!(ends, [(Status::Done, 0), (Status::Retry, 1), (Status::Dead, 1), (Status::New, 0)]);
    assert_eq!(shelf.next().id(), "order-4", "what was given back comes again");
}

/// P2, P4: never more is taken than the handler has room for, and no room skips the cycle.
#[tokio::test(start_paused = true)]
async fn capacity_of_the_handler_bounds_the_take() {
    let (stage, shelf) = (Stage::set(), Shelf::with_room(0));
    let names = orders(10);
    stage.pending(&names.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let outbox = stage.outbox().poller_handler(shelf.clone()).poll_every(5 * SECOND).start().unwrap();

    stage.pass(60 * SECOND).await;
    assert_eq!((outbox.counts().takes, shelf.len()), (0, 0));
    shelf.room.store(3, Ordering::Relaxed);
    outbox.poll().await.unwrap();

    assert_eq!((outbox.counts().takes, shelf.len()), (1, 3));
    assert_eq!(outbox.counts().released, 0);
}

/// P2, P5: a handler that was full gets the next event when it settles one, not at the next poll.
#[tokio::test(start_paused = true)]
async fn full_handler_gets_more_as_soon_as_it_settles() {
    let (stage, shelf) = (Stage::set(), Shelf::with_room(1));
    stage.pending(&["order-1", "order-2", "order-3"]).await;
    let _outbox = stage.outbox().poller_handler(shelf.clone()).poll_every(HOUR).start().unwrap();

    for order in ["order-1", "order-2", "order-3"] {
        stage.quiet().await;
        let event = shelf.next();
        assert_eq!(event.id(), order);
        event.done().await;
    }
}

/// P2: `false` ends the cycle, and what was taken goes back in the same cycle, unspent.
#[tokio::test(start_paused = true)]
async fn refusal_ends_the_cycle_and_releases_the_rest() {
    let (stage, mut shelf) = (Stage::set(), Shelf::with_room(100));
    shelf.accepts = 2;
    let names = orders(6);
    stage.pending(&names.iter().map(String::as_str).collect::<Vec<_>>()).await;

    let outbox = stage.outbox().poller_handler(shelf.clone()).poll_every(HOUR).start().unwrap();
    stage.quiet().await;

    assert_eq!((shelf.len(), shelf.asked.load(Ordering::Relaxed)), (2, 3));
    assert_eq!(outbox.counts().released, 4);
    for order in &names[2..] {
        let row = stage.row(order).await;
        assert_eq!((row.locked_by, row.attempts, row.starts), (None, 0, 0));
    }
}

/// P2, M3: a handler that panics refuses, and the poller goes on.
#[tokio::test(start_paused = true)]
async fn panicking_handler_refuses() {
    struct Clumsy(Shelf);

    impl PollerHandler for Clumsy {
        fn capacity(&self) -> usize {
            self.0.capacity()
        }

        fn handle(&self, event: Leased) -> bool {
            let first = self.0.asked.load(Ordering::Relaxed) == 0;
            let accepted = self.0.handle(event);
            assert!(!first, "dropped it");
            accepted
        }
    }
    let (stage, mut shelf, logs) = (Stage::set(), Shelf::with_room(10), Logs::collect());
    shelf.accepts = 1;
    stage.pending(&["order-1", "order-2"]).await;

    let outbox = stage.outbox().poller_handler(Clumsy(shelf.clone())).poll_every(SECOND).start().unwrap();
    stage.quiet().await;
    assert_eq!(outbox.counts().released, 2);
    drop(shelf.next());
    stage.pass(SECOND).await;

    assert_eq!(shelf.next().id(), "order-1");
    let errors = logs.at(Level::ERROR);
    assert!(errors[0].starts_with("the poller's handler panicked"), "{errors:?}");
}

/// P2: an event that the handler drops unsettled comes again when its lease ends.
#[tokio::test(start_paused = true)]
async fn dropped_lease_ends_by_itself() {
    let (stage, shelf) = (Stage::set(), Shelf::with_room(1));
    let outbox = stage.outbox().poller_handler(shelf.clone()).lease_for(60 * SECOND).start().unwrap();
    write(&outbox, placed("order-1")).await;
    stage.quiet().await;

    drop(shelf.next());
    stage.pass(59 * SECOND).await;
    assert_eq!(shelf.len(), 0);
    stage.pass(2 * SECOND).await;

    assert_eq!(shelf.next().attempt(), 1);
}

/// D2: what a handler got can be handed to the workers of another outbox.
#[tokio::test(start_paused = true)]
async fn leased_event_is_handed_to_workers() {
    let (stage, shelf, seen) = (Stage::set(), Shelf::with_room(10), Notes::<Delivery>::new());
    let relay = stage.outbox().poller_handler(shelf.clone()).start().unwrap();
    let workers = stage.outbox().on("OrderPlaced", seen.listener()).poll_every(HOUR).start().unwrap();
    write(&relay, placed("order-1")).await;
    stage.quiet().await;

    assert!(relay.enqueue_cold(shelf.next()).is_err(), "it has no workers");
    stage.pending(&["order-2"]).await;
    relay.poll().await.unwrap();
    workers.enqueue_cold(shelf.next()).unwrap();
    stage.quiet().await;

    assert_eq!(seen.ids(), ["order-2"]);
    assert_eq!(stage.status("order-2").await, Status::Done);
}

/// D2: the hot queue takes no more than it has places for.
#[tokio::test(start_paused = true)]
async fn full_hot_queue_refuses() {
    let stage = Stage::set();
    let (listener, mut desk) = Desk::open();
    let outbox = stage.outbox().on("OrderPlaced", listener).workers(1).hot_queue(2).start().unwrap();
    write(&outbox, placed("order-1")).await;
    let running = desk.next().await;
    write_all(&outbox, &orders(3)[1..]).await;
    stage.quiet().await;

    assert!(!outbox.enqueue_hot(placed("order-4")));
    running.succeed();
    let _second = desk.next().await;

    assert!(outbox.enqueue_hot(placed("order-4")));
    assert_eq!((outbox.counts().hot_enqueued, outbox.counts().hot_dropped), (4, 0));
}

/// D2: a full cold queue says so, and gives back what it cannot take.
#[tokio::test(start_paused = true)]
async fn full_cold_queue_gives_back() {
    let (stage, shelf) = (Stage::set(), Shelf::with_room(10));
    let (listener, mut desk) = Desk::open();
    let relay = stage.outbox().poller_handler(shelf.clone()).start().unwrap();
    let workers = stage.outbox().on("OrderPlaced", listener).workers(1).cold_queue(1).poll_every(HOUR);
    let workers = workers.start().unwrap();
    write_all(&relay, &orders(3)).await;
    stage.quiet().await;

    workers.enqueue_cold(shelf.next()).unwrap();
    let running = desk.next().await;
    assert!(workers.has_cold_capacity());
    workers.enqueue_cold(shelf.next()).unwrap();
    assert!(!workers.has_cold_capacity());
    let refused = workers.enqueue_cold(shelf.next()).unwrap_err();
    assert_eq!(refused.id(), "order-3");
    running.succeed();
    desk.accept_many(1).await;

    assert!(workers.has_cold_capacity());
    workers.enqueue_cold(refused).unwrap();
    assert_eq!(desk.accept_many(1).await[0].id(), "order-3");
}

/// D2: from the begin of a shutdown on nothing is queued, though the queues have room.
#[tokio::test(start_paused = true)]
async fn queues_take_nothing_while_shutting_down() {
    let (stage, shelf) = (Stage::set(), Shelf::with_room(10));
    let (listener, mut desk) = Desk::open();
    let relay = stage.outbox().poller_handler(shelf.clone()).start().unwrap();
    let workers = stage.outbox().on("OrderPlaced", listener).poll_every(HOUR).start().unwrap();
    write_all(&relay, &orders(2)).await;
    stage.quiet().await;
    workers.enqueue_cold(shelf.next()).unwrap();
    let running = desk.next().await;

    let asking = async {
        stage.quiet().await;
        assert!(!workers.has_cold_capacity());
        assert!(!workers.enqueue_hot(placed("order-3")));
        let refused = workers.enqueue_cold(shelf.next()).unwrap_err();
        running.succeed();
        refused
    };
    let ((), refused) = tokio::join!(workers.close(), asking);

    assert_eq!(refused.id(), "order-2");
    assert!(workers.enqueue_cold(refused).is_err());
    assert_eq!((workers.counts().done, workers.counts().cold_enqueued), (1, 1));
}
