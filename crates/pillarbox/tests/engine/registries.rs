//! Which listener gets an event.

use pillarbox::store::Status;
use pillarbox::{
    Delivery, Event, FanOut, GLOBAL, Listener, ListenerError, Listeners, MemorySink, Registry, Target,
};

use crate::stage::{HOUR, Notes, Stage, placed, write};

/// L1: a second listener for the same types is an error that names both types and the way out.
#[tokio::test(start_paused = true)]
async fn second_registration_is_refused() {
    let (stage, seen) = (Stage::set(), Notes::<Delivery>::new());

    let refused = stage
        .outbox()
        .on_aggregate("Order", "OrderPlaced", seen.listener())
        .on("OrderPlaced", seen.listener())
        .on_sink("Order", "OrderPlaced", MemorySink::new())
        .start()
        .unwrap_err();

    assert_eq!(
        refused.to_string(),
        "a listener for aggregate type `Order` and event type `OrderPlaced` is registered already; \
         use `Handlers` or `FanOut` for several listeners of one event"
    );
}

/// L1: no aggregate type means `__GLOBAL__`, which is no wildcard.
#[tokio::test(start_paused = true)]
async fn global_is_no_wildcard() {
    let (stage, seen) = (Stage::set(), Notes::<Delivery>::new());
    let outbox = stage.outbox().on("OrderPlaced", seen.listener()).start().unwrap();

    let of_order = Event::builder("OrderPlaced").aggregate("Order", "17").json_text("{}");
    let unheard = write(&outbox, of_order).await;
    write(&outbox, Event::builder("OrderPlaced").aggregate_type(GLOBAL).id("heard").json_text("{}")).await;
    stage.quiet().await;

    assert_eq!(seen.ids(), ["heard"]);
    assert_eq!(stage.status(&unheard).await, Status::Dead);
}

/// L1: no separator trick joins aggregate type and event type.
#[tokio::test(start_paused = true)]
async fn types_never_run_together() {
    let mut listeners = Listeners::new();
    for (aggregate, event) in [("a:b", "c"), ("a", "b:c"), ("a:b:c", "d"), ("a", "b:c:d")] {
        listeners.register_for(aggregate, event, Target::sink(MemorySink::new())).unwrap();
    }
    let event = |aggregate: &str, event: &str| {
        Event::builder(event).aggregate_type(aggregate).json_text("{}").build().unwrap()
    };

    assert!(listeners.route(&event("a", "b:c")).is_some());
    assert!(listeners.route(&event("a:b", "c")).is_some());
    assert!(listeners.route(&event("a", "b")).is_none());
    assert!(listeners.route(&event("a:b", "c:d")).is_none());
}

/// L1: a registry of the user's own routes in place of the built-in one.
#[tokio::test(start_paused = true)]
async fn own_registry_routes() {
    struct ByTenant(Target);

    impl Registry for ByTenant {
        fn route(&self, event: &Event) -> Option<Target> {
            (event.tenant_id() == Some("acme")).then(|| self.0.clone())
        }
    }
    let (stage, seen) = (Stage::set(), Notes::<Delivery>::new());
    let registry = ByTenant(Target::listener(seen.listener()));
    let outbox = stage.outbox().registry(registry).start().unwrap();

    write(&outbox, Event::builder("Anything").id("ours").tenant("acme").json_text("{}")).await;
    let theirs = write(&outbox, Event::builder("Anything").tenant("other").json_text("{}")).await;
    stage.quiet().await;

    assert_eq!(seen.ids(), ["ours"]);
    assert_eq!(stage.status(&theirs).await, Status::Dead);
}

/// L1, D10: a registry that panics fails the attempt, and delivery goes on.
#[tokio::test(start_paused = true)]
async fn panicking_registry_counts_as_failed() {
    struct Broken(Target);

    impl Registry for Broken {
        fn route(&self, event: &Event) -> Option<Target> {
            assert_ne!(event.id(), "order-1", "the table of routes is broken");
            Some(self.0.clone())
        }
    }
    let (stage, seen) = (Stage::set(), Notes::<Delivery>::new());
    let outbox = stage.outbox().registry(Broken(Target::listener(seen.listener()))).start().unwrap();

    write(&outbox, placed("order-1")).await;
    stage.pass(HOUR).await;
    write(&outbox, placed("order-2")).await;
    stage.pending(&["order-3"]).await;
    stage.pass(HOUR).await;

    assert_eq!(seen.ids(), ["order-2", "order-3"]);
    let row = stage.row("order-1").await;
    assert_eq!((row.status, row.attempts), (Ok(Status::Dead), 10));
    assert!(row.last_error.unwrap().starts_with("the registry panicked: "));
}

fn named(name: &'static str, notes: &Notes) -> impl Listener + use<> {
    let notes = notes.clone();
    move |_: Delivery| {
        notes.note(name);
        std::future::ready(Ok::<(), ListenerError>(()))
    }
}

/// L2: all listeners of a type run in the order of registration, then those of any type.
#[tokio::test(start_paused = true)]
async fn fan_out_runs_all_listeners_in_order() {
    let (stage, notes) = (Stage::set(), Notes::new());
    let registry = FanOut::new()
        .on_any(named("audit", &notes))
        .on("OrderPlaced", named("billing", &notes))
        .on("OrderShipped", named("post", &notes))
        .on("OrderPlaced", named("mail", &notes))
        .on_any(named("search", &notes));
    let outbox = stage.outbox().registry(registry).start().unwrap();

    let of_order = Event::builder("OrderPlaced").aggregate("Order", "17").json_text("{}");
    write(&outbox, of_order).await;
    stage.quiet().await;

    assert_eq!(notes.all(), ["billing", "mail", "audit", "search"]);
}

/// L2: the first failure fails the event, and all run again.
#[tokio::test(start_paused = true)]
async fn fan_out_runs_all_again_after_a_failure() {
    let (stage, notes) = (Stage::set(), Notes::new());
    let noted = notes.clone();
    let flaky = move |delivery: Delivery| {
        noted.note("mail");
        std::future::ready(match delivery.attempt() {
            1 => Err(ListenerError::new("mailbox full")),
            _ => Ok(()),
        })
    };
    let registry = FanOut::new()
        .on("OrderPlaced", named("billing", &notes))
        .on("OrderPlaced", flaky)
        .on_any(named("audit", &notes));
    let outbox = stage.outbox().registry(registry).start().unwrap();

    write(&outbox, placed("order-1")).await;
    stage.pass(HOUR).await;

    assert_eq!(notes.all(), ["billing", "mail", "billing", "mail", "audit"]);
    assert_eq!(stage.row("order-1").await.attempts, 1);
}

/// L2, D5: an event that nobody listens to is unroutable in the fan-out registry too.
#[tokio::test(start_paused = true)]
async fn fan_out_without_a_match_is_dead() {
    let (stage, notes) = (Stage::set(), Notes::new());
    let registry = FanOut::new().on("OrderShipped", named("post", &notes));
    let outbox = stage.outbox().registry(registry).start().unwrap();

    write(&outbox, placed("order-1")).await;
    stage.quiet().await;

    assert_eq!((stage.status("order-1").await, notes.len()), (Status::Dead, 0));
}
