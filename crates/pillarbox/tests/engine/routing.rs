//! Events to named sinks, by routes.

use std::sync::Arc;
use std::time::Duration;

use pillarbox::store::{Administration, Selection, Status};
use pillarbox::{
    Clock, Delivery, Event, Health, MemorySink, MemoryStore, OutboxBuilder, Route, Routing, SinkError,
    Unroutable,
};

use crate::stage::{HOUR, Notes, SECOND, Stage, orders, placed, placing, write, write_all};

/// A sink that is down until a moment, and then acknowledges everything.
pub(crate) fn down_until(clock: &Arc<dyn Clock>, moment: Duration) -> MemorySink {
    let clock = clock.clone();
    MemorySink::answering(move |_| match clock.now() < moment {
        true => Err(SinkError::unavailable("connection refused")),
        false => Ok(()),
    })
}

pub(crate) fn ids(sink: &MemorySink) -> Vec<String> {
    sink.published().iter().map(|delivery| delivery.id().to_owned()).collect()
}

/// One route for everything to both sinks.
fn to_both(kafka: &MemorySink, audit: &MemorySink) -> Routing {
    let sinks = Routing::new().sink("kafka", kafka.clone()).unwrap().sink("audit", audit.clone()).unwrap();
    sinks.routes(vec![Route::new("all").to("kafka").to("audit")]).unwrap()
}

fn poller_of(stage: &Stage, routing: &Routing) -> OutboxBuilder<MemoryStore> {
    stage.outbox().poller_only().routing(routing)
}

/// K1, L3: every sink of a route gets an event once, under its own name.
#[tokio::test(start_paused = true)]
async fn every_sink_gets_the_event_once() {
    let (stage, kafka, audit) = (Stage::set(), MemorySink::new(), MemorySink::new());
    let outbox = stage.outbox().routing(&to_both(&kafka, &audit)).start().unwrap();

    write_all(&outbox, &orders(3)).await;
    stage.quiet().await;

    assert_eq!((ids(&kafka), ids(&audit)), (orders(3), orders(3)));
    assert_eq!(outbox.counts().done, 3);
    assert_eq!(kafka.published()[0].handler_id(), Some("kafka"));
}

/// T5, L3: a sink that is down has the other neither wait nor get an event twice, and costs no attempt.
#[tokio::test(start_paused = true)]
async fn sink_that_is_down_repeats_nothing_elsewhere() {
    let stage = Stage::set();
    let (kafka, audit) = (MemorySink::new(), down_until(&stage.runtime.clock, HOUR));
    let routing = to_both(&kafka, &audit);
    let outbox = stage.outbox().routing(&routing).start().unwrap();

    write_all(&outbox, &orders(20)).await;
    stage.pass(SECOND).await;
    assert_eq!(ids(&kafka), orders(20));
    stage.pass(HOUR - 2 * SECOND).await;
    assert_eq!(stage.status("order-1").await, Status::Retry);
    stage.pass(120 * SECOND).await;

    assert_eq!(kafka.published().len(), 20);
    let mut audited = ids(&audit);
    audited.sort();
    audited.dedup();
    assert_eq!((audited.len(), audit.published().len()), (20, 20));
    let counts = outbox.counts();
    assert_eq!((counts.done, counts.failed, counts.dead), (20, 0, 0));
}

/// L3: which sink has an event is known after a restart.
#[tokio::test(start_paused = true)]
async fn restart_repeats_nothing() {
    let stage = Stage::set();
    let (kafka, audit) = (MemorySink::new(), down_until(&stage.runtime.clock, 60 * SECOND));
    let first = stage.outbox().routing(&to_both(&kafka, &audit)).start().unwrap();
    write_all(&first, &orders(5)).await;
    stage.pass(10 * SECOND).await;
    first.close().await;

    let second = stage.outbox().routing(&to_both(&kafka, &audit)).start().unwrap();
    stage.pass(120 * SECOND).await;

    assert_eq!((kafka.published().len(), audit.published().len()), (5, 5));
    assert_eq!(second.counts().done, 5);
}

/// L3, S2: what one sink refuses for good is dead, and a replay brings it to that sink only.
#[tokio::test(start_paused = true)]
async fn replay_goes_to_the_sink_that_refused() {
    let (stage, kafka) = (Stage::set(), MemorySink::new());
    let verdicts = Notes::<String>::new();
    let seen = verdicts.clone();
    let audit = MemorySink::answering(move |delivery: &Delivery| {
        seen.note(delivery.id().to_owned());
        match seen.all().len() {
            1 => Err(SinkError::rejected("larger than 1 MB, the limit of the topic").for_good()),
            _ => Ok(()),
        }
    });
    let outbox = stage.outbox().routing(&to_both(&kafka, &audit)).start().unwrap();
    write(&outbox, placed("order-1")).await;
    stage.quiet().await;

    let row = stage.row("order-1").await;
    assert_eq!((row.status, row.attempts), (Ok(Status::Dead), 1), "at once");
    let error = row.last_error.unwrap_or_default();
    assert_eq!(error, "sink `audit`: larger than 1 MB, the limit of the topic");
    stage.store.replay(&Selection::Ids(vec!["order-1".into()])).await.unwrap();
    outbox.poll().await.unwrap();
    stage.quiet().await;

    assert_eq!(stage.status("order-1").await, Status::Done);
    assert_eq!((kafka.published().len(), audit.published().len()), (1, 1));
}

/// L3: each sink's attempts are its own.
#[tokio::test(start_paused = true)]
async fn attempts_of_a_sink_are_its_own() {
    let (stage, attempts) = (Stage::set(), Notes::<(String, u32)>::new());
    let refusing = |times: u32| {
        let noted = attempts.clone();
        MemorySink::answering(move |delivery: &Delivery| {
            noted.note((delivery.handler_id().unwrap_or_default().to_owned(), delivery.attempt()));
            if delivery.attempt() <= times { Err(SinkError::rejected("400")) } else { Ok(()) }
        })
    };
    let routing = to_both(&refusing(2), &refusing(1));
    let outbox = stage.outbox().routing(&routing).start().unwrap();

    write(&outbox, placed("order-1")).await;
    stage.pass(60 * SECOND).await;

    let of = |sink: &str| {
        let all = attempts.all().into_iter().filter(|(id, _)| id == sink).map(|(_, attempt)| attempt);
        all.collect::<Vec<_>>()
    };
    assert_eq!((of("kafka"), of("audit")), (vec![1, 2, 3], vec![1, 2]));
    assert_eq!(stage.status("order-1").await, Status::Done);
}

/// T5: while everything is down nothing is taken that could only be given back, however large the backlog is.
#[tokio::test(start_paused = true)]
async fn backlog_is_left_alone_while_the_sink_is_down() {
    let (stage, calls) = (Stage::set(), Notes::<Duration>::new());
    let (noted, clock) = (calls.clone(), stage.runtime.clock.clone());
    let sink = MemorySink::answering(move |_| {
        noted.note(clock.now());
        if clock.now() < HOUR { Err(SinkError::unavailable("connection refused")) } else { Ok(()) }
    });
    let routing = Routing::new().sink("kafka", sink.clone()).unwrap();
    let routing = routing.routes(vec![Route::new("all").to("kafka")]).unwrap();
    let names = orders(5_000);
    stage.pending(&names.iter().map(String::as_str).collect::<Vec<_>>()).await;

    let outbox = poller_of(&stage, &routing).start().unwrap();
    stage.pass(HOUR - SECOND).await;

    // The first take finds it down; then one event each time, and what was queued by then once more.
    let (tried, counts) = (calls.all().len(), outbox.counts());
    assert!(tried < 2_500, "{tried} events were tried in an hour");
    assert!(counts.cold_enqueued < 5_000, "{counts:?}");
    assert_eq!(routing.health()[0].health, Health::Down);
    assert_eq!(routing.health()[0].last_error.as_deref(), Some("connection refused"));
    stage.pass(120 * SECOND).await;

    assert_eq!((sink.published().len(), outbox.counts().done), (5_000, 5_000));
    assert_eq!((outbox.counts().failed, outbox.counts().dead), (0, 0));
    assert_eq!(routing.health()[0].health, Health::Well);
}

/// T5: a sink that is back is tried with one event, and then with more and more.
#[tokio::test(start_paused = true)]
async fn recovery_begins_with_one_event() {
    let (stage, runs) = (Stage::set(), Notes::<usize>::new());
    struct Counting(Notes<usize>, Arc<dyn Clock>);
    impl pillarbox::Sink for Counting {
        fn publish<'a>(&'a self, run: &'a pillarbox::Run) -> pillarbox::BoxFuture<'a, ()> {
            Box::pin(async move {
                if self.1.now() < 60 * SECOND {
                    return run.answer_rest(&Err(SinkError::unavailable("down")));
                }
                self.1.sleep(Duration::from_millis(5)).await;
                self.0.note(run.deliveries().len());
                run.answer_rest(&Ok(()));
            })
        }
    }
    let sink = Counting(runs.clone(), stage.runtime.clock.clone());
    let routing = Routing::new().sink("kafka", sink).unwrap();
    let routing = routing.routes(vec![Route::new("all").to("kafka")]).unwrap();
    let names = orders(2_000);
    stage.pending(&names.iter().map(String::as_str).collect::<Vec<_>>()).await;

    let outbox = poller_of(&stage, &routing).start().unwrap();
    stage.pass(180 * SECOND).await;

    assert_eq!(outbox.counts().done, 2_000);
    let runs = runs.all();
    assert_eq!(runs[0], 1, "{runs:?}");
    let grown = runs.iter().take_while(|events| **events < 100).count();
    assert!((4..=24).contains(&grown), "{runs:?}");
}

/// Guarantee 7: a sink that is down delays its own events and nothing else.
#[tokio::test(start_paused = true)]
async fn sink_that_is_down_delays_nobody_else() {
    let stage = Stage::set();
    let (kafka, audit) = (MemorySink::new(), down_until(&stage.runtime.clock, HOUR));
    let sinks = Routing::new().sink("kafka", kafka.clone()).unwrap().sink("audit", audit).unwrap();
    let routing = sinks
        .routes(vec![Route::new("audits").event_type("Audit*").to("audit"), Route::new("rest").to("kafka")])
        .unwrap();
    let audits = (0..3_000).map(|number| Event::builder("AuditDone").id(format!("audit-{number}")));
    stage.insert(audits.map(|event| event.json_text("{}").build().unwrap()).collect()).await;
    let outbox = stage.outbox().routing(&routing).start().unwrap();
    stage.pass(60 * SECOND).await;

    write_all(&outbox, &orders(100)).await;
    stage.quiet().await;

    assert_eq!(kafka.published().len(), 100);
}

/// O2: where order is on, a sink that is down holds the keys whose events wait for it, and no others.
#[tokio::test(start_paused = true)]
async fn order_is_kept_across_an_outage() {
    let stage = Stage::set();
    let (kafka, audit) = (MemorySink::new(), down_until(&stage.runtime.clock, 60 * SECOND));
    let sinks = Routing::new().sink("kafka", kafka.clone()).unwrap().sink("audit", audit.clone()).unwrap();
    let routing = sinks
        .routes(vec![
            Route::new("audits").header("audited", "*").to("audit").to("kafka"),
            Route::new("rest").to("kafka"),
        ])
        .unwrap();
    let outbox = stage.outbox().ordered().routing(&routing).start().unwrap();
    stage.pass(SECOND).await;
    let of = |id: &str, key: &str| placing(id).key(key);
    for event in [of("a-1", "a").header("audited", "yes"), of("a-2", "a"), of("b-1", "b"), of("a-3", "a")] {
        write(&outbox, event.build().unwrap()).await;
    }

    stage.pass(10 * SECOND).await;
    assert_eq!(
        ids(&kafka).iter().filter(|id| *id != "b-1").collect::<Vec<_>>(),
        ["a-1"],
        "a waits for its audit"
    );
    assert!(ids(&kafka).contains(&"b-1".to_owned()));
    stage.pass(180 * SECOND).await;

    let of_a: Vec<String> = ids(&kafka).into_iter().filter(|id| id.starts_with('a')).collect();
    assert_eq!(of_a, ["a-1", "a-2", "a-3"]);
    assert_eq!(ids(&audit), ["a-1"]);
    assert_eq!(outbox.counts().done, 4);
}

/// T5: a destination that asks to be left alone is left alone for that long.
#[tokio::test(start_paused = true)]
async fn retry_after_is_kept() {
    let (stage, calls) = (Stage::set(), Notes::<Duration>::new());
    let (noted, clock) = (calls.clone(), stage.runtime.clock.clone());
    let sink = MemorySink::answering(move |_| {
        noted.note(clock.now());
        match noted.all().len() {
            1 => Err(SinkError::unavailable("429").retry_after(600 * SECOND)),
            _ => Ok(()),
        }
    });
    let routing = Routing::new().sink("hooks", sink).unwrap();
    let routing = routing.routes(vec![Route::new("all").to("hooks")]).unwrap();
    let outbox = stage.outbox().routing(&routing).start().unwrap();

    write(&outbox, placed("order-1")).await;
    stage.pass(HOUR).await;

    let calls = calls.all();
    assert_eq!(calls.len(), 2);
    assert!(calls[1] - calls[0] >= 600 * SECOND, "{calls:?}");
}

/// T5: an event that ends alone and unanswered, again and again while others pass, counts as rejected in the end.
#[tokio::test(start_paused = true)]
async fn event_that_is_never_answered_is_dead_in_the_end() {
    let stage = Stage::set();
    let sink = MemorySink::answering(|delivery: &Delivery| match delivery.id() {
        "poison" => Err(SinkError::unknown("the connection was closed before the answer")),
        _ => Ok(()),
    });
    let routing = Routing::new().sink("kafka", sink.clone()).unwrap();
    let routing = routing.routes(vec![Route::new("all").to("kafka")]).unwrap();
    let outbox = stage.outbox().routing(&routing).start().unwrap();
    write(&outbox, placed("poison")).await;

    let mut written = 0;
    while stage.status("poison").await != Status::Dead {
        written += 1;
        assert!(written < 20_000, "it is tried for ever");
        write(&outbox, placed(&format!("order-{written}"))).await;
        stage.pass(SECOND).await;
    }

    let row = stage.row("poison").await;
    assert_eq!(row.attempts, 10, "from then on it spends attempts");
    let error = row.last_error.unwrap_or_default();
    assert!(error.contains("the connection was closed") && error.contains("while others passed"), "{error}");
    stage.pass(120 * SECOND).await;
    assert_eq!(sink.published().len(), written, "the others were delayed, not lost");
    assert!(outbox.counts().unanswered >= 20, "each time it may have arrived");
}

/// D5: what no route takes follows the policy for what has no listener.
#[tokio::test(start_paused = true)]
async fn event_without_a_route_is_dead_or_held() {
    for (policy, status) in [(Unroutable::Dead, Status::Dead), (Unroutable::Hold, Status::Retry)] {
        let (stage, sink) = (Stage::set(), MemorySink::new());
        let routing = Routing::new().sink("kafka", sink).unwrap();
        let routing =
            routing.routes(vec![Route::new("invoices").event_type("Invoice*").to("kafka")]).unwrap();
        let outbox = stage.outbox().routing(&routing).unroutable(policy).start().unwrap();

        write(&outbox, placed("order-1")).await;
        stage.quiet().await;

        assert_eq!(stage.status("order-1").await, status);
    }
}

/// K1: a paused route keeps its events, visibly and unspent; others go on, and so does it when it is resumed.
#[tokio::test(start_paused = true)]
async fn paused_route_keeps_its_events() {
    let (stage, sink) = (Stage::set(), MemorySink::new());
    let sinks = Routing::new().sink("kafka", sink.clone()).unwrap();
    let routing = sinks
        .routes(vec![Route::new("orders").event_type("Order*").to("kafka"), Route::new("rest").to("kafka")])
        .unwrap();
    let outbox = stage.outbox().routing(&routing).start().unwrap();
    routing.set_paused(["orders".to_owned()]);

    write(&outbox, placed("order-1")).await;
    write(&outbox, Event::builder("Ping").id("ping").json_text("{}").build().unwrap()).await;
    stage.pass(90 * SECOND).await;
    assert_eq!(ids(&sink), ["ping"]);
    let row = stage.row("order-1").await;
    assert_eq!((row.attempts, row.reason.as_deref()), (0, Some("paused: route `orders`")));
    routing.set_paused([]);
    stage.pass(60 * SECOND).await;

    assert_eq!(ids(&sink), ["ping", "order-1"]);
}

/// M4: routes are replaced while the outbox runs.
#[tokio::test(start_paused = true)]
async fn routes_are_replaced_while_the_outbox_runs() {
    let (stage, kafka, audit) = (Stage::set(), MemorySink::new(), MemorySink::new());
    let routing = to_both(&kafka, &audit);
    let outbox = stage.outbox().routing(&routing).start().unwrap();
    write(&outbox, placed("order-1")).await;
    stage.quiet().await;

    routing.set_routes(vec![Route::new("all").to_at("audit", "orders.{key}").unwrap()]).unwrap();
    write(&outbox, placed("order-2")).await;
    stage.quiet().await;

    assert_eq!(
        (ids(&kafka), ids(&audit)),
        (vec!["order-1".into()], vec!["order-1".into(), "order-2".into()])
    );
}

/// L3: what is owed to a sink that no route names any more is kept, and named.
#[tokio::test(start_paused = true)]
async fn sink_that_is_gone_is_still_owed() {
    let stage = Stage::set();
    let (kafka, audit) = (MemorySink::new(), down_until(&stage.runtime.clock, HOUR));
    let routing = to_both(&kafka, &audit);
    let outbox = stage.outbox().routing(&routing).start().unwrap();
    write(&outbox, placed("order-1")).await;
    stage.pass(SECOND).await;

    routing.set_routes(vec![Route::new("all").to("kafka")]).unwrap();
    stage.pass(120 * SECOND).await;

    let row = stage.row("order-1").await;
    assert_eq!(row.reason.as_deref(), Some("hold: no handler `audit` is registered here"));
    assert_eq!(outbox.unknown_handlers()[0].id, "audit");
    assert_eq!(kafka.published().len(), 1);
}
