//! Routes that are paused and resumed while the outbox runs.

use pillarbox::store::PausedRoute;
use pillarbox::{Event, MemorySink, MemoryStore, Outbox, Route, Routing};

use crate::stage::{SECOND, Stage, orders, placing, write, write_all};

fn ids(sink: &MemorySink) -> Vec<String> {
    sink.published().iter().map(|delivery| delivery.id().to_owned()).collect()
}

/// Orders go by a route of their own, and the rest by another, to one sink.
fn routes(sink: &MemorySink) -> Routing {
    let sinks = Routing::new().sink("kafka", sink.clone()).unwrap();
    let orders = Route::new("orders").event_type("Order*").to("kafka");
    sinks.routes(vec![orders, Route::new("rest").to("kafka")]).unwrap()
}

/// Resumes all routes, as a relay does that sees it in the database.
async fn resume(stage: &Stage, outbox: &Outbox<MemoryStore>, routing: &Routing) -> u64 {
    routing.set_paused([]);
    let recalled = PausedRoute::recall(&stage.store, "orders").await.unwrap();
    outbox.poll().await.unwrap();
    recalled
}

/// M5: where rows are claimed, what waits for a route goes out as soon as that is resumed, the longest due first.
#[tokio::test(start_paused = true)]
async fn resumed_route_delivers_at_once() {
    let (stage, sink) = (Stage::set(), MemorySink::new());
    let routing = routes(&sink);
    let outbox = stage.outbox().poller_only().routing(&routing).start().unwrap();
    routing.set_paused(["orders".to_owned()]);
    for order in orders(5) {
        stage.pending(&[&order]).await;
        stage.pass(SECOND).await;
    }
    stage.pass(10 * SECOND).await;
    assert_eq!(ids(&sink), Vec::<String>::new());
    assert_eq!(routing.paused(), ["orders"]);

    let recalled = resume(&stage, &outbox, &routing).await;
    stage.quiet().await;

    assert_eq!(recalled, 5);
    assert_eq!(ids(&sink), orders(5));
    assert_eq!((outbox.counts().done, outbox.counts().failed), (5, 0));
}

/// M5, O2: where order is kept, too, and a key goes on in its order across the pause; other keys never wait.
#[tokio::test(start_paused = true)]
async fn order_is_kept_across_a_pause() {
    let (stage, sink) = (Stage::set(), MemorySink::new());
    let routing = routes(&sink);
    let outbox = stage.outbox().ordered().routing(&routing).start().unwrap();
    stage.pass(SECOND).await;
    write(&outbox, placing("a-1").key("a").build().unwrap()).await;
    stage.quiet().await;
    routing.set_paused(["orders".to_owned()]);
    let ping = |id: &str, key: &str| Event::builder("Ping").id(id).key(key).json_text("{}").build().unwrap();
    for number in 2..=40 {
        write(&outbox, placing(&format!("a-{number}")).key("a").build().unwrap()).await;
    }
    write(&outbox, ping("a-41", "a")).await;
    write(&outbox, ping("b-1", "b")).await;
    stage.pass(10 * SECOND).await;
    assert_eq!(ids(&sink), ["a-1", "b-1"], "a ping of the same key waits behind its orders");

    resume(&stage, &outbox, &routing).await;
    write(&outbox, placing("a-42").key("a").build().unwrap()).await;
    stage.quiet().await;

    let of_a: Vec<String> = ids(&sink).into_iter().filter(|id| id.starts_with('a')).collect();
    let expected: Vec<String> = (1..=42).map(|number| format!("a-{number}")).collect();
    assert_eq!(of_a, expected);
    assert_eq!(outbox.counts().done, 43);
}

/// M5: a pause of any length spends no attempt and loses nothing, in both modes; events that were looked at again meanwhile
/// go out at once as well.
#[tokio::test(start_paused = true)]
async fn long_pause_spends_nothing() {
    for is_ordered in [false, true] {
        let (stage, sink) = (Stage::set(), MemorySink::new());
        let routing = routes(&sink);
        let builder = stage.outbox().routing(&routing);
        let builder = if is_ordered { builder.ordered() } else { builder };
        let outbox = builder.start().unwrap();
        routing.set_paused(["orders".to_owned()]);
        write_all(&outbox, &orders(2_500)).await;
        stage.pass(631 * SECOND).await;
        assert_eq!(ids(&sink), Vec::<String>::new());
        let row = stage.row("order-1").await;
        assert_eq!((row.attempts, row.starts, row.reason.as_deref()), (0, 0, Some("paused: route `orders`")));

        let recalled = resume(&stage, &outbox, &routing).await;
        stage.pass(2 * SECOND).await;

        assert!(recalled > 0, "ordered: {is_ordered}");
        let counts = outbox.counts();
        assert_eq!((counts.done, counts.failed, counts.dead), (2_500, 0, 0), "ordered: {is_ordered}");
        assert_eq!(sink.published().len(), 2_500);
    }
}

/// M5: a backlog that waits for a route costs next to nothing where it is recalled: its rows are not written again before
/// the time that was set.
#[tokio::test(start_paused = true)]
async fn paused_backlog_is_left_alone() {
    for is_ordered in [false, true] {
        let (stage, sink) = (Stage::set(), MemorySink::new());
        let routing = routes(&sink).look_again_after(900 * SECOND);
        let builder = stage.outbox().routing(&routing);
        let builder = if is_ordered { builder.ordered() } else { builder };
        let outbox = builder.start().unwrap();
        routing.set_paused(["orders".to_owned()]);
        write_all(&outbox, &orders(1)).await;
        stage.pass(10 * SECOND).await;
        let row = stage.row("order-1").await;
        assert_eq!(row.reason.as_deref(), Some("paused: route `orders`"), "ordered: {is_ordered}");

        stage.pass(870 * SECOND).await;

        assert_eq!(stage.row("order-1").await.available_at, row.available_at, "ordered: {is_ordered}");
    }
}
