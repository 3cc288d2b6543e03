//! Sinks that are down, where partitions are owned: nothing is read for them, and hardly anything set aside.

use std::collections::BTreeMap;
use std::time::Duration;

use pillarbox::store::Status;
use pillarbox::{Event, Health, MemorySink, Route, Routing, SinkError};

use crate::owning::run_of;
use crate::routing::{down_until, ids};
use crate::stage::{HOUR, SECOND, Stage, orders, write_all};

/// One sink for everything.
fn to(sink: &MemorySink) -> Routing {
    let routing = Routing::new().sink("kafka", sink.clone()).unwrap();
    routing.routes(vec![Route::new("all").to("kafka")]).unwrap()
}

/// How many of the events with these ids are set aside.
async fn aside(stage: &Stage, ids: &[String]) -> usize {
    let mut count = 0;
    for id in ids {
        count += usize::from(stage.status(id).await == Status::Retry);
    }
    count
}

/// T5: while everything is down nothing is read that could only be given back, however large the backlog is.
#[tokio::test(start_paused = true)]
async fn owner_reads_nothing_while_the_sink_is_down() {
    let stage = Stage::set();
    let sink = down_until(&stage.runtime.clock, HOUR);
    let names = orders(5_000);
    stage.pending(&names.iter().map(String::as_str).collect::<Vec<_>>()).await;

    let outbox = stage.outbox().ordered().routing(&to(&sink)).start().unwrap();
    stage.pass(HOUR - SECOND).await;

    // What was read before it was known, and then one event each time.
    let counts = outbox.counts();
    assert!(counts.cold_enqueued < 5_000, "{counts:?}");
    outbox.poll().await.unwrap();
    stage.pass(180 * SECOND).await;

    assert_eq!((sink.published().len(), outbox.counts().done), (5_000, 5_000));
    assert_eq!((outbox.counts().failed, outbox.counts().dead), (0, 0));
}

/// T5, O6: what an outage stops goes back as it was. Aside it would have to be read key by key, and the backlog would be
/// slower than it was before.
#[tokio::test(start_paused = true)]
async fn outage_sets_hardly_anything_aside() {
    let stage = Stage::set();
    let sink = down_until(&stage.runtime.clock, 600 * SECOND);
    let keys = orders(400);
    // In turn: of each key there is one before there is a second of any.
    let events: Vec<Event> =
        (0..5).flat_map(|turn| keys.iter().map(move |key| run_of(key, 5).remove(turn))).collect();
    let names: Vec<String> =
        keys.iter().flat_map(|key| (1..=5).map(move |turn| format!("{key}.{turn}"))).collect();
    stage.insert(events).await;

    let routing = to(&sink);
    let outbox = stage.outbox().ordered().routing(&routing).start().unwrap();
    stage.pass(599 * SECOND).await;
    assert_eq!(routing.health()[0].health, Health::Down);
    // Each time that it was tried, the one event that it was tried with; not the followers of its key.
    let aside = aside(&stage, &names).await;
    assert!((1..40).contains(&aside), "{aside} events are aside");
    stage.pass(60 * SECOND).await;

    let mut arrived: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for delivery in sink.published() {
        arrived.entry(delivery.key().unwrap().to_owned()).or_default().push(delivery.id().to_owned());
    }
    let expected =
        keys.iter().map(|key| (key.clone(), (1..=5).map(|turn| format!("{key}.{turn}")).collect()));
    assert_eq!(arrived, expected.collect());
    assert_eq!(outbox.counts().done, 2_000);
}

/// T5, D6: what a short outage stops waits for the sink, and not for the next poll.
#[tokio::test(start_paused = true)]
async fn sink_that_is_back_is_not_kept_waiting() {
    let stage = Stage::set();
    let sink = down_until(&stage.runtime.clock, SECOND);
    let outbox = stage.outbox().ordered().poll_every(HOUR).routing(&to(&sink)).start().unwrap();
    stage.quiet().await;

    write_all(&outbox, &orders(300)).await;
    stage.pass(4 * SECOND).await;

    assert_eq!((sink.published().len(), outbox.counts().done), (300, 300));
}

/// Guarantee 7: an event for which alone its sink is never there holds up no other.
#[tokio::test(start_paused = true)]
async fn event_without_a_way_holds_up_no_other() {
    let stage = Stage::set();
    let sink = MemorySink::answering(|delivery| match delivery.id() {
        "order-1" => Err(SinkError::unavailable("there is no such topic")),
        _ => Ok(()),
    });
    let names = orders(1_000);
    stage.pending(&names.iter().map(String::as_str).collect::<Vec<_>>()).await;

    let outbox = stage.outbox().ordered().routing(&to(&sink)).start().unwrap();
    stage.pass(60 * SECOND).await;

    assert_eq!(outbox.counts().done, 999);
    assert_eq!((stage.status("order-1").await, stage.row("order-1").await.attempts), (Status::Retry, 0));
}

/// Guarantee 7: the same while events go on coming one by one: its sink does not count as down because of it.
#[tokio::test(start_paused = true)]
async fn event_without_a_way_does_not_close_the_way_of_others() {
    let stage = Stage::set();
    let sink = MemorySink::answering(|delivery| match delivery.id() {
        "order-1" => Err(SinkError::unavailable("there is no such topic")),
        _ => Ok(()),
    });
    let routing = to(&sink);
    let outbox = stage.outbox().ordered().routing(&routing).start().unwrap();
    let names = orders(600);

    for name in &names {
        stage.pending(&[name]).await;
        stage.pass(SECOND).await;
    }

    // It was the first, so that others were kept waiting until it was known that it is to blame.
    stage.pass(10 * SECOND).await;
    assert_eq!((outbox.counts().done, routing.health()[0].health), (599, Health::Well));
    assert_eq!((stage.status("order-1").await, stage.row("order-1").await.attempts), (Status::Retry, 0));
}

/// T5: a sink that no route leads to does not count, whatever it would let through.
#[tokio::test(start_paused = true)]
async fn sink_without_a_route_has_nothing_read_for_it() {
    let stage = Stage::set();
    let sink = down_until(&stage.runtime.clock, HOUR);
    let routing =
        Routing::new().sink("kafka", sink.clone()).unwrap().sink("spare", MemorySink::new()).unwrap();
    let routing = routing.routes(vec![Route::new("all").to("kafka")]).unwrap();
    let names = orders(5_000);
    stage.pending(&names.iter().map(String::as_str).collect::<Vec<_>>()).await;

    let outbox = stage.outbox().ordered().routing(&routing).start().unwrap();
    stage.pass(HOUR - SECOND).await;

    let counts = outbox.counts();
    assert!(counts.cold_enqueued < 5_000, "{counts:?}");
}

/// Guarantee 7: of two sinks that are down, the one that comes back first does not wait for the other, whose events are
/// read before its own.
#[tokio::test(start_paused = true)]
async fn sink_that_is_back_does_not_wait_for_the_other() {
    let stage = Stage::set();
    let until = |moment: Duration| down_until(&stage.runtime.clock, moment);
    let (audit, kafka) = (until(HOUR), until(60 * SECOND));
    let sinks = Routing::new().sink("audit", audit.clone()).unwrap().sink("kafka", kafka.clone()).unwrap();
    let routes = vec![Route::new("audits").event_type("Audit*").to("audit"), Route::new("rest").to("kafka")];
    let routing = sinks.routes(routes).unwrap();
    let audits = (0..500).map(|number| Event::builder("AuditDone").id(format!("audit-{number}")));
    stage.insert(audits.map(|event| event.json_text("{}").build().unwrap()).collect()).await;
    let names = orders(100);
    stage.pending(&names.iter().map(String::as_str).collect::<Vec<_>>()).await;

    let outbox = stage.outbox().ordered().routing(&routing).start().unwrap();
    stage.pass(180 * SECOND).await;

    assert_eq!((ids(&kafka).len(), ids(&audit).len()), (100, 0));
    stage.pass(HOUR).await;
    assert_eq!((ids(&audit).len(), outbox.counts().done), (500, 600));
    assert_eq!(outbox.counts().failed, 0);
}
