//! Writing inside transactions, and what hangs on their end.

use pillarbox::store::CommitError;
use pillarbox::{Delivery, Event, NoHook, Source, WriteError};
use tracing::Level;

use crate::logs::Logs;
use crate::stage::{HOUR, MILLISECOND, Notes, SECOND, Stage, placed, placing, write};

/// W1, W13: a savepoint that is rolled back takes its events along, and nothing else.
#[tokio::test(start_paused = true)]
async fn rolled_back_savepoint_leaves_no_row_and_no_delivery() {
    let (stage, seen) = (Stage::set(), Notes::<Delivery>::new());
    let outbox = stage.outbox().on("OrderPlaced", seen.listener()).start().unwrap();

    let mut tx = outbox.begin().await.unwrap();
    outbox.write(&mut tx, placed("order-1")).await.unwrap();
    let savepoint = tx.savepoint();
    outbox.write(&mut tx, placed("order-2")).await.unwrap();
    tx.rollback_to(savepoint);
    tx.commit().await.unwrap();
    stage.pass(HOUR).await;

    assert_eq!(seen.ids(), ["order-1"]);
    assert!(!stage.has_row("order-2").await);
    assert_eq!(outbox.counts().hot_missing, 1);
}

/// W1, W5: a transaction that is dropped leaves no row and no delivery.
#[tokio::test(start_paused = true)]
async fn dropped_transaction_rolls_back() {
    let (stage, seen, ends) = (Stage::set(), Notes::<Delivery>::new(), Notes::<&str>::new());
    let outbox = stage.outbox().on("OrderPlaced", seen.listener()).start().unwrap();

    let mut tx = outbox.begin().await.unwrap();
    let noted = ends.clone();
    tx.after_rollback(move || noted.note("rolled back"));
    outbox.write(&mut tx, placed("order-1")).await.unwrap();
    drop(tx);
    stage.pass(HOUR).await;

    assert!(!stage.has_row("order-1").await);
    assert_eq!((seen.len(), ends.all()), (0, vec!["rolled back"]));
}

/// W2: every way of writing returns the ids of its events, in their order.
#[tokio::test(start_paused = true)]
async fn writes_return_event_ids() {
    let stage = Stage::set();
    let outbox = stage.outbox().writer_only().start().unwrap();
    let mut tx = outbox.begin().await.unwrap();

    let one = outbox.write(&mut tx, placed("order-1")).await.unwrap();
    let json = outbox.write_json(&mut tx, "OrderPlaced", "{}").await.unwrap();
    let many = outbox.write_all(&mut tx, [placed("order-3"), placed("order-2")]).await.unwrap();
    let none = outbox.write_all(&mut tx, Vec::<Event>::new()).await.unwrap();
    tx.commit().await.unwrap();

    assert_eq!((one.as_str(), none.len()), ("order-1", 0));
    assert_eq!(many, ["order-3", "order-2"]);
    assert!(stage.has_row(&json).await);
}

/// V6, W2: a repeated event id is its own error, and names the id.
#[tokio::test(start_paused = true)]
async fn repeated_event_id_is_refused() {
    let stage = Stage::set();
    let outbox = stage.outbox().writer_only().start().unwrap();
    write(&outbox, placed("order-1")).await;

    let mut tx = outbox.begin().await.unwrap();
    let refused = outbox.write(&mut tx, placed("order-1")).await.unwrap_err();

    assert!(matches!(&refused, WriteError::DuplicateId { id } if id == "order-1"));
    assert_eq!(
        refused.to_string(),
        "an event with the id `order-1` exists already; give every event its own id"
    );
}

/// W2, V6: an event that is wrong is found before the first of a batch is written.
#[tokio::test(start_paused = true)]
async fn wrong_event_in_a_batch_writes_nothing() {
    let stage = Stage::set();
    let outbox = stage.outbox().writer_only().start().unwrap();
    let mut tx = outbox.begin().await.unwrap();

    let refused = outbox.write_all(&mut tx, [placing("order-1"), placing("order-2").json_text("{")]).await;
    tx.commit().await.unwrap();

    assert!(matches!(refused, Err(WriteError::Event(_))), "{refused:?}");
    assert!(!stage.has_row("order-1").await);
}

/// W5: callbacks run in order, after a commit that succeeded or else after the rollback.
#[tokio::test(start_paused = true)]
async fn callbacks_follow_the_end_of_their_transaction() {
    let (stage, ends) = (Stage::set(), Notes::<String>::new());
    let outbox = stage.outbox().writer_only().start().unwrap();
    let begin = async |name: &str| {
        let mut tx = outbox.begin().await.unwrap();
        for number in 1..=2 {
            let (committed, rolled_back) = (ends.clone(), ends.clone());
            let (name, same) = (name.to_owned(), name.to_owned());
            tx.after_commit(move || committed.note(format!("{name} committed {number}")));
            tx.after_rollback(move || rolled_back.note(format!("{same} rolled back {number}")));
        }
        tx
    };

    let mut failing = begin("failing").await;
    outbox.write(&mut failing, placed("order-1")).await.unwrap();
    let mut first = begin("first").await;
    outbox.write(&mut first, placed("order-1")).await.unwrap();
    first.commit().await.unwrap();
    begin("second").await.rollback().await.unwrap();
    let refused = failing.commit().await;

    assert!(matches!(refused, Err(CommitError::RolledBack { .. })), "{refused:?}");
    let expected = [
        "first committed 1",
        "first committed 2",
        "second rolled back 1",
        "second rolled back 2",
        "failing rolled back 1",
        "failing rolled back 2",
    ];
    assert_eq!(ends.all(), expected);
}

/// W5: neither kind of callback runs when nobody knows how the commit ended, whichever way it did.
#[tokio::test(start_paused = true)]
async fn no_callback_follows_an_unknown_commit() {
    let (stage, ends) = (Stage::set(), Notes::<&str>::new());
    let (outbox, faults) = stage.faulty();
    let outbox = outbox.writer_only().start().unwrap();
    let commit = async |order: &str| {
        let mut tx = outbox.begin().await.unwrap();
        let (committed, rolled_back) = (ends.clone(), ends.clone());
        tx.after_commit(move || committed.note("committed"));
        tx.after_rollback(move || rolled_back.note("rolled back"));
        outbox.write(&mut tx, placed(order)).await.unwrap();
        tx.commit().await.unwrap_err()
    };

    faults.commits.next(1);
    let without_effect = commit("order-1").await;
    faults.commit_answers.next(1);
    let with_effect = commit("order-2").await;
    stage.quiet().await;

    assert!(matches!(without_effect, CommitError::Unknown { .. }), "{without_effect:?}");
    assert!(matches!(with_effect, CommitError::Unknown { .. }), "{with_effect:?}");
    assert_eq!((stage.has_row("order-1").await, stage.has_row("order-2").await), (false, true));
    assert_eq!(ends.all(), Vec::<&str>::new());
}

/// W6: what panics after a commit is logged, and reaches neither the caller nor what follows.
#[tokio::test(start_paused = true)]
async fn panic_after_a_commit_reaches_nobody() {
    let (stage, seen, logs) = (Stage::set(), Notes::<Delivery>::new(), Logs::collect());
    let outbox = stage
        .outbox()
        .on("OrderPlaced", seen.listener())
        .after_commit(Hook(|_: &[Event]| panic!("the hook broke")))
        .start()
        .unwrap();

    let mut tx = outbox.begin().await.unwrap();
    tx.after_commit(|| panic!("the callback broke"));
    outbox.write(&mut tx, placed("order-1")).await.unwrap();
    let committed = tx.commit().await;
    stage.quiet().await;

    assert!(committed.is_ok(), "{committed:?}");
    assert_eq!(seen.ids(), ["order-1"]);
    let errors = logs.at(Level::ERROR).join("\n");
    assert!(errors.contains("the hook broke") && errors.contains("the callback broke"), "{errors}");
}

/// W6: the hook sees what was committed, and only that.
#[tokio::test(start_paused = true)]
async fn hook_sees_committed_events() {
    let (stage, hooked) = (Stage::set(), Notes::<String>::new());
    let noted = hooked.clone();
    let hook = Hook(move |events: &[Event]| events.iter().for_each(|event| noted.note(event.id())));
    let outbox = stage.outbox().writer_only().after_commit(hook).start().unwrap();

    write(&outbox, placed("order-1")).await;
    let mut tx = outbox.begin().await.unwrap();
    outbox.write(&mut tx, placed("order-2")).await.unwrap();
    tx.rollback().await.unwrap();
    outbox.begin().await.unwrap().commit().await.unwrap();

    assert_eq!(hooked.all(), ["order-1"]);
}

/// W6: with no hook, and with the one that does nothing, a writer neither warns nor counts a drop.
#[tokio::test(start_paused = true)]
async fn writer_without_a_hook_is_silent() {
    let (stage, logs) = (Stage::set(), Logs::collect());
    let plain = stage.outbox().writer_only().start().unwrap();
    let hooked = stage.outbox().writer_only().after_commit(NoHook).start().unwrap();

    write(&plain, placed("order-1")).await;
    write(&hooked, placed("order-2")).await;
    stage.quiet().await;

    assert_eq!((plain.counts(), hooked.counts()), Default::default());
    assert_eq!(logs.at(Level::WARN), Vec::<String>::new());
    assert_eq!(stage.row("order-1").await.locked_by, None);
}

/// W9, V7: key and tenant are stored and handed to listeners on both paths.
#[tokio::test(start_paused = true)]
async fn key_and_tenant_are_delivered() {
    let (stage, seen) = (Stage::set(), Notes::<Delivery>::new());
    let outbox = stage
        .outbox()
        .on_aggregate("Order", "OrderPlaced", seen.listener())
        .on("OrderPlaced", seen.listener())
        .start()
        .unwrap();
    let of_aggregate =
        || Event::builder("OrderPlaced").aggregate("Order", "17").tenant("acme").json_text("{}");

    write(&outbox, of_aggregate().id("default")).await;
    write(&outbox, of_aggregate().id("own").key("customer-4")).await;
    write(&outbox, of_aggregate().id("none").no_key()).await;
    stage.quiet().await;
    stage.insert(vec![of_aggregate().id("cold").build().unwrap()]).await;
    outbox.poll().await.unwrap();
    stage.quiet().await;

    let got: Vec<_> = seen.all();
    let keys: Vec<_> = got.iter().map(|delivery| (delivery.id(), delivery.key())).collect();
    let expected =
        [("default", Some("17")), ("own", Some("customer-4")), ("none", None), ("cold", Some("17"))];
    assert_eq!(keys, expected);
    assert!(got.iter().all(|delivery| delivery.tenant_id() == Some("acme")));
}

/// V8: a delayed event is delivered from the table when its time has come, and not before.
#[tokio::test(start_paused = true)]
async fn delayed_event_waits_for_its_time() {
    let (stage, seen) = (Stage::set(), Notes::<Delivery>::new());
    let outbox = stage.outbox().on("OrderPlaced", seen.listener()).poll_every(HOUR).start().unwrap();

    write(&outbox, placing("order-1").deliver_after(60 * SECOND)).await;
    stage.pass(60 * SECOND - MILLISECOND).await;
    assert_eq!(seen.len(), 0);
    stage.quiet().await;

    assert_eq!(seen.ids(), ["order-1"]);
    assert_eq!(seen.all()[0].source(), Source::Cold);
}

/// W1: events in a transaction of the user's own driver live and die with it; its receipt wakes the poller.
#[tokio::test(start_paused = true)]
async fn receipt_of_a_foreign_transaction_wakes_the_poller() {
    let (stage, seen) = (Stage::set(), Notes::<Delivery>::new());
    let outbox = stage.outbox().on("OrderPlaced", seen.listener()).poll_every(HOUR).start().unwrap();

    let mut rolled_back = stage.store.open();
    let lost = outbox.write_in(&mut rolled_back, [placed("order-1")]).await.unwrap();
    rolled_back.rollback();
    let mut tx = stage.store.open();
    let receipt = outbox.write_in(&mut tx, [placed("order-2"), placed("order-3")]).await.unwrap();
    tx.commit().unwrap();
    assert_eq!((lost.ids(), receipt.ids().len()), (&["order-1".to_owned()][..], 2));
    outbox.committed(receipt);
    stage.quiet().await;

    assert_eq!(seen.ids(), ["order-2", "order-3"]);
}

/// W1: a receipt that is forgotten costs latency and nothing else.
#[tokio::test(start_paused = true)]
async fn forgotten_receipt_waits_for_the_next_poll() {
    let (stage, seen) = (Stage::set(), Notes::<Delivery>::new());
    let outbox = stage.outbox().on("OrderPlaced", seen.listener()).poll_every(5 * SECOND).start().unwrap();
    stage.quiet().await;

    let mut tx = stage.store.open();
    let _forgotten = outbox.write_in(&mut tx, [placed("order-1")]).await.unwrap();
    tx.commit().unwrap();
    stage.quiet().await;
    assert_eq!(seen.len(), 0);
    stage.pass(5 * SECOND).await;

    assert_eq!(seen.ids(), ["order-1"]);
}

/// An after-commit hook made of a function.
struct Hook<F>(F);

impl<F: Fn(&[Event]) + Send + Sync + 'static> pillarbox::AfterCommitHook for Hook<F> {
    fn on_commit(&self, events: &[Event]) {
        (self.0)(events);
    }
}
