//! Handlers of an event that passes to another instance, and comes back.

use std::sync::atomic::Ordering;
use std::time::Duration;

use pillarbox::store::{DoneRows, EventStore, Outcome, Owner, Settlement, Status, Take, Taken, Token};
use pillarbox::{Delivery, Handlers, ListenerError, OutboxBuilder};

use crate::faults::FaultyStore;
use crate::handling::{OrderPlaced, noting, placed};
use crate::stage::{MILLISECOND, Notes, SECOND, Stage, write};

/// Another instance, which takes by force what belongs to the outbox.
struct Rival<'a>(&'a Stage);

impl Rival<'_> {
    /// The name of both: an operator has not kept his promise.
    const NAME: &'static str = "shop";

    /// Ends all leases of the outbox, as if they had expired.
    async fn end_leases(&self) {
        self.0.store.resume(&Owner::new(Self::NAME, 1)).await.unwrap();
    }

    /// Takes all that the outbox had.
    async fn take(&self) -> Vec<Taken> {
        self.end_leases().await;
        let take = Take {
            owner: Owner::new(Self::NAME, 1),
            token: Token(17),
            limit: 10,
            lease_for: 60 * SECOND,
            skip_recent: Duration::ZERO,
            sweep: false,
        };
        self.0.store.take(take).await.unwrap().events
    }

    /// Records what became of an event, and how far its handlers have come.
    async fn settle(&self, taken: &Taken, outcome: Outcome, handlers: Option<&str>) {
        let handlers = handlers.map(str::to_owned);
        let settlement = Settlement { handlers, ..Settlement::of(taken, outcome) };
        let lost = self.0.store.settle(&[settlement], DoneRows::Keep).await.unwrap();
        assert_eq!(lost, [0; 0]);
    }
}

/// An outbox that looks for work ten times a second.
fn eager(builder: OutboxBuilder<FaultyStore>) -> OutboxBuilder<FaultyStore> {
    builder.name(Rival::NAME).poll_every(100 * MILLISECOND)
}

/// A handler that notes its id and the order, and takes ten seconds.
fn slow(
    stage: &Stage,
    notes: &Notes,
) -> impl Fn(OrderPlaced, Delivery) -> pillarbox::BoxFuture<'static, Result<(), ListenerError>> + use<> {
    let (clock, notes) = (stage.runtime.clock.clone(), notes.clone());
    move |event, delivery| {
        notes.note(format!("{} {}", delivery.handler_id().unwrap_or_default(), event.order));
        let pause = clock.sleep(10 * SECOND);
        Box::pin(async move {
            pause.await;
            Ok(())
        })
    }
}

fn again(spent: bool) -> Outcome {
    Outcome::Retry { after: Duration::ZERO, error: "503".into(), spent }
}

/// L4, S10: who succeeded before the lease was lost between two handlers does not run again when the event comes back.
#[tokio::test(start_paused = true)]
async fn success_before_the_lease_was_lost_is_remembered() {
    let (stage, notes) = (Stage::set(), Notes::<String>::new());
    let handlers =
        Handlers::new().handler("billing", slow(&stage, &notes)).handler("mail", noting(&notes, 0));
    let (builder, faults) = stage.faulty();
    let outbox = eager(builder).handlers(handlers).start().unwrap();
    write(&outbox, placed("order-1")).await;
    stage.pass(5 * SECOND).await;

    let taken = Rival(&stage).take().await;
    stage.pass(10 * SECOND).await;
    assert_eq!((notes.all(), faults.settled.load(Ordering::Relaxed)), (vec!["billing order-1".into()], 0));
    Rival(&stage).settle(&taken[0], Outcome::Released, None).await;
    stage.pass(20 * SECOND).await;

    assert_eq!(notes.all(), ["billing order-1", "mail order-1 1"]);
    assert_eq!(stage.status("order-1").await, Status::Done);
}

/// L3, D8: progress that is recorded by giving the event back is written again under the lease that this instance has
/// got meanwhile.
#[tokio::test(start_paused = true)]
async fn progress_is_written_again_under_a_newer_lease() {
    let (stage, notes) = (Stage::set(), Notes::<String>::new());
    let handlers =
        Handlers::new().handler("billing", slow(&stage, &notes)).handler("mail", noting(&notes, 0));
    let (builder, faults) = stage.faulty();
    let outbox = eager(builder).handlers(handlers).start().unwrap();
    write(&outbox, placed("order-1")).await;
    stage.pass(9 * SECOND).await;

    // The lease cannot be renewed for the second handler, so the event is given back; that takes a while.
    faults.renewals.next(1);
    *faults.settles_take.lock().unwrap() = 900 * MILLISECOND;
    stage.pass(SECOND + 200 * MILLISECOND).await;
    Rival(&stage).end_leases().await;
    stage.pass(2 * SECOND).await;

    let (status, handlers) = (stage.status("order-1").await, stage.row("order-1").await.handlers);
    assert_eq!(status, Status::New);
    assert!(handlers.is_some_and(|handlers| handlers.contains(r#""billing":"done""#)));
    stage.pass(10 * SECOND).await;
    assert_eq!(notes.all(), ["billing order-1", "mail order-1 1"]);
    assert_eq!(stage.status("order-1").await, Status::Done);
    assert_eq!(faults.settled.load(Ordering::Relaxed), 3, "lost, written again, done");
    assert_eq!(outbox.counts().lost_leases, 0);
}

/// L3, S10: what an instance has to say of handlers is not recorded over what another has recorded meanwhile, whatever
/// lease it has by now; and its own successes are not forgotten.
#[tokio::test(start_paused = true)]
async fn text_that_another_has_overtaken_gives_way() {
    let (stage, notes) = (Stage::set(), Notes::<String>::new());
    let noted = notes.clone();
    let handlers = Handlers::new()
        .handler("billing", slow(&stage, &notes))
        .handler("mail", noting(&notes, 0))
        .handler("audit", move |_: OrderPlaced, delivery: Delivery| {
            noted.note(format!("audit {}", delivery.attempt()));
            let is_first = delivery.attempt() == 1;
            std::future::ready(if is_first { Err(ListenerError::not_now(SECOND, "later")) } else { Ok(()) })
        });
    let (builder, _) = stage.faulty();
    let outbox = eager(builder).handlers(handlers).start().unwrap();
    write(&outbox, placed("order-1")).await;
    stage.pass(5 * SECOND).await;

    let taken = Rival(&stage).take().await;
    let owed = r#"{"owed":{"failures":2,"after_us":0}}"#;
    let text = format!(r#"{{"audit":{owed},"billing":{owed},"mail":"done"}}"#);
    Rival(&stage).settle(&taken[0], again(true), Some(&text)).await;
    stage.pass(30 * SECOND).await;

    assert_eq!(
        notes.all(),
        ["billing order-1", "audit 1", "audit 3"],
        "two failures were recorded by the other"
    );
    assert_eq!(stage.status("order-1").await, Status::Done);
    assert_eq!(outbox.counts().lost_leases, 0);
}

/// L3: nor is it recorded over what another has recorded without spending an attempt, or what an operator has changed.
#[tokio::test(start_paused = true)]
async fn text_that_was_changed_without_an_attempt_gives_way() {
    let (stage, notes) = (Stage::set(), Notes::<String>::new());
    let handlers =
        Handlers::new().handler("mail", noting(&notes, 1)).handler("billing", slow(&stage, &notes));
    let (builder, _) = stage.faulty();
    let outbox = eager(builder).handlers(handlers).start().unwrap();
    write(&outbox, placed("order-1")).await;
    stage.pass(5 * SECOND).await;

    let taken = Rival(&stage).take().await;
    Rival(&stage).settle(&taken[0], Outcome::Released, Some(r#"{"mail":"done"}"#)).await;
    stage.pass(30 * SECOND).await;

    assert_eq!(notes.all(), ["mail order-1 1", "billing order-1"], "each has succeeded, here or there");
    assert_eq!(stage.status("order-1").await, Status::Done);
    assert_eq!(outbox.counts().lost_leases, 0);
}

/// L3: an event that waited in the queue for longer than its lease, and was taken anew, goes by what that take told.
#[tokio::test(start_paused = true)]
async fn event_that_is_taken_anew_goes_by_what_was_recorded() {
    let (stage, notes) = (Stage::set(), Notes::<String>::new());
    let handlers =
        Handlers::new().handler("billing", slow(&stage, &notes)).handler("mail", noting(&notes, 0));
    let (builder, _) = stage.faulty();
    let outbox = eager(builder).workers(1).handlers(handlers).start().unwrap();
    write(&outbox, placed("order-1")).await;
    write(&outbox, placed("order-2")).await;
    stage.pass(2 * SECOND).await;

    let taken = Rival(&stage).take().await;
    let text = r#"{"billing":"done","mail":{"owed":{"failures":1,"after_us":0}}}"#;
    Rival(&stage).settle(&taken[0], Outcome::Released, None).await;
    Rival(&stage).settle(&taken[1], again(false), Some(text)).await;
    stage.pass(60 * SECOND).await;

    assert_eq!(notes.all(), ["billing order-1", "mail order-1 1", "mail order-2 2"]);
    assert_eq!(stage.status("order-2").await, Status::Done);
    assert_eq!(outbox.counts().done, 2);
}
