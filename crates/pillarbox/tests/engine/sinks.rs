//! Runs of events to a sink.

use std::time::Duration;

use pillarbox::store::Status;
use pillarbox::{BoxFuture, Event, GLOBAL, MemorySink, Run, Sink, SinkError, Target};

use crate::stage::{HOUR, Notes, SECOND, Stage, orders, placed, write, write_all};

/// A sink that never answers.
pub(crate) struct Silent;

impl Sink for Silent {
    fn publish<'a>(&'a self, _: &'a Run) -> BoxFuture<'a, ()> {
        Box::pin(std::future::pending())
    }
}

/// A sink made of a function that answers a whole run.
struct Answering<F>(F);

impl<F: Fn(&Run) + Send + Sync + 'static> Sink for Answering<F> {
    fn publish<'a>(&'a self, run: &'a Run) -> BoxFuture<'a, ()> {
        Box::pin(async move { (self.0)(run) })
    }
}

/// D7: a sink gets what waits for it in one run, in order, and each event is done on its own.
#[tokio::test(start_paused = true)]
async fn waiting_events_go_out_in_one_run() {
    let (stage, runs) = (Stage::set(), Notes::<Vec<String>>::new());
    let noted = runs.clone();
    let sink = Answering(move |run: &Run| {
        noted.note(run.deliveries().iter().map(|delivery| delivery.id().to_owned()).collect::<Vec<_>>());
        run.answer_rest(&Ok(()));
    });
    let names = orders(40);
    stage.pending(&names.iter().map(String::as_str).collect::<Vec<_>>()).await;

    let outbox = stage.outbox().on_sink(GLOBAL, "OrderPlaced", sink).start().unwrap();
    stage.quiet().await;

    assert_eq!(runs.all(), [names]);
    assert_eq!(outbox.counts().done, 40);
}

/// D7: a run is bounded by events and by bytes.
#[tokio::test(start_paused = true)]
async fn runs_are_bounded_by_events_and_bytes() {
    let (stage, runs) = (Stage::set(), Notes::<usize>::new());
    let noted = runs.clone();
    let sink = Answering(move |run: &Run| {
        noted.note(run.deliveries().len());
        run.answer_rest(&Ok(()));
    });
    let large = |id: usize| {
        Event::builder("OrderPlaced").id(format!("large-{id}")).bytes(vec![0; 400]).build().unwrap()
    };
    stage.insert((0..4).map(large).collect()).await;
    let names = orders(10);
    stage.pending(&names.iter().map(String::as_str).collect::<Vec<_>>()).await;

    let outbox =
        stage.outbox().on_sink(GLOBAL, "OrderPlaced", sink).workers(1).run_limits(5, 1_000).start().unwrap();
    stage.quiet().await;

    assert_eq!(outbox.counts().done, 14);
    assert!(runs.all().iter().all(|&events| events <= 5), "{:?}", runs.all());
    assert_eq!(runs.all()[..2], [2, 5], "two of 400 bytes, then two and three small ones");
}

/// D3: a rejected event spends an attempt and ends dead; its neighbours are done.
#[tokio::test(start_paused = true)]
async fn rejected_event_ends_dead_alone() {
    let stage = Stage::set();
    let sink = MemorySink::answering(|delivery| match delivery.id() {
        "order-2" => Err(SinkError::rejected("too large for the topic")),
        _ => Ok(()),
    });
    let outbox = stage.outbox().on_sink(GLOBAL, "OrderPlaced", sink.clone()).start().unwrap();

    write_all(&outbox, &orders(3)).await;
    stage.pass(HOUR).await;

    let row = stage.row("order-2").await;
    assert_eq!((row.status, row.attempts), (Ok(Status::Dead), 10));
    assert_eq!(row.last_error.as_deref(), Some("too large for the topic"));
    assert_eq!((sink.published().len(), outbox.counts().done), (2, 2));
}

/// D3, D8: an event that the sink left for a later run is given back: it costs no attempt, and the destination no pause.
#[tokio::test(start_paused = true)]
async fn event_that_was_not_sent_comes_again_at_once() {
    let stage = Stage::set();
    let sink = Answering(|run: &Run| {
        let has_failed = run.deliveries()[0].id() == "order-1";
        run.answer(0, if has_failed { Err(SinkError::rejected("422")) } else { Ok(()) });
        let answer = if has_failed { Err(SinkError::not_sent("order-1 failed")) } else { Ok(()) };
        run.answer_rest(&answer);
    });
    stage.pending(&["order-1", "order-2"]).await;

    let outbox = stage.outbox().on_sink(GLOBAL, "OrderPlaced", sink).workers(1).start().unwrap();
    stage.quiet().await;
    outbox.poll().await.unwrap();
    stage.quiet().await;

    let row = stage.row("order-2").await;
    assert_eq!((row.status, row.attempts, row.last_error), (Ok(Status::Done), 0, None));
    assert_eq!(stage.row("order-1").await.attempts, 1);
}

/// D3: a destination that is down costs no attempt, however long it is.
#[tokio::test(start_paused = true)]
async fn outage_of_a_destination_spends_nothing() {
    let stage = Stage::set();
    let clock = stage.runtime.clock.clone();
    let sink = MemorySink::answering(move |_| match clock.now() < 2 * HOUR {
        true => Err(SinkError::unavailable("503")),
        false => Ok(()),
    });
    let outbox = stage.outbox().on_sink(GLOBAL, "OrderPlaced", sink.clone()).start().unwrap();

    write_all(&outbox, &orders(20)).await;
    stage.pass(2 * HOUR - SECOND).await;
    assert_eq!(stage.row("order-1").await.attempts, 0);
    stage.pass(120 * SECOND).await;

    assert_eq!((sink.published().len(), outbox.counts().done), (20, 20));
    assert_eq!((outbox.counts().failed, outbox.counts().dead), (0, 0));
}

/// D3, D10: events without an answer (silence, the time limit) may have arrived: retried, unspent.
#[tokio::test(start_paused = true)]
async fn unanswered_events_are_retried_unspent() {
    let stage = Stage::set();
    let outbox = stage
        .outbox()
        .on_sink("Silence", "OrderPlaced", Silent)
        .on_sink("Forgets", "OrderPlaced", Answering(|run: &Run| run.answer(0, Ok(()))))
        .start()
        .unwrap();
    let of = |aggregate: &str, id: &str| {
        Event::builder("OrderPlaced").aggregate_type(aggregate).id(id).json_text("{}").build().unwrap()
    };
    stage.insert(vec![of("Silence", "a"), of("Forgets", "c"), of("Forgets", "d")]).await;

    outbox.poll().await.unwrap();
    stage.pass(30 * SECOND + SECOND / 10).await;

    for (id, error) in
        [("a", "the sink did not answer within 30s"), ("d", "the sink did not answer for this event")]
    {
        let row = stage.row(id).await;
        assert_eq!(row.attempts, 0, "{id}");
        if id != "d" {
            assert_eq!((row.status, row.last_error.as_deref()), (Ok(Status::Retry), Some(error)));
        }
    }
    assert_eq!(stage.status("c").await, Status::Done);
    assert_eq!(stage.status("d").await, Status::Done, "alone in its next run it is answered");
}

/// D10, D12: a sink that panics over one event of a run delivers the others, and this one is dead in the end.
#[tokio::test(start_paused = true)]
async fn event_that_breaks_the_sink_holds_up_no_other() {
    let stage = Stage::set();
    let sink = Answering(|run: &Run| {
        let is_poison = run.deliveries().iter().any(|delivery| delivery.id() == "order-3");
        assert!(!is_poison, "the client broke");
        run.answer_rest(&Ok(()));
    });
    let outbox = stage.outbox().on_sink(GLOBAL, "OrderPlaced", sink).start().unwrap();

    write_all(&outbox, &orders(5)).await;
    stage.pass(HOUR).await;

    for id in ["order-1", "order-2", "order-4", "order-5"] {
        assert_eq!(stage.status(id).await, Status::Done, "{id}");
    }
    let row = stage.row("order-3").await;
    assert_eq!((row.status, row.attempts), (Ok(Status::Dead), 10));
    let error = row.last_error.unwrap_or_default();
    assert!(error.starts_with("the sink panicked"), "{error}");
}

/// D7: answers count as they come, before the run is over.
#[tokio::test(start_paused = true)]
async fn answer_counts_before_the_run_is_over() {
    struct OneByOne(std::sync::Arc<dyn pillarbox::Clock>);

    impl Sink for OneByOne {
        fn publish<'a>(&'a self, run: &'a Run) -> BoxFuture<'a, ()> {
            Box::pin(async move {
                for index in 0..run.deliveries().len() {
                    self.0.sleep(SECOND).await;
                    run.answer(index, Ok(()));
                }
            })
        }
    }
    let stage = Stage::set();
    let sink = OneByOne(stage.runtime.clock.clone());
    let outbox = stage.outbox().on_sink(GLOBAL, "OrderPlaced", sink).start().unwrap();

    write_all(&outbox, &orders(3)).await;
    stage.pass(Duration::from_millis(1_500)).await;

    assert_eq!(stage.status("order-1").await, Status::Done);
    assert_eq!(stage.status("order-2").await, Status::New);
    assert_eq!(outbox.counts().done, 1);
}

/// L1: one sink can get several types of events.
#[tokio::test(start_paused = true)]
async fn one_sink_gets_several_types() {
    let (stage, sink) = (Stage::set(), MemorySink::new());
    let target = Target::sink(sink.clone());
    let outbox = stage
        .outbox()
        .route(GLOBAL, "OrderPlaced", target.clone())
        .route(GLOBAL, "OrderShipped", target)
        .start()
        .unwrap();

    write(&outbox, placed("order-1")).await;
    write(&outbox, Event::of_json("OrderShipped", "{}").unwrap()).await;
    stage.quiet().await;

    assert_eq!(sink.published().len(), 2);
}
