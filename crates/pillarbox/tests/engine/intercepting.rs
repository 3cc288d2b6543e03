//! Interceptors around every attempt.

use pillarbox::store::Status;
use pillarbox::{BoxFuture, Delivery, GLOBAL, Interceptor, ListenerError, MemorySink, Source, after, before};
use tracing::Level;

use crate::logs::Logs;
use crate::stage::{HOUR, Notes, SECOND, Stage, orders, placed, write, write_all};

/// Notes when it runs.
struct Noting {
    name: &'static str,
    notes: Notes,
}

impl Interceptor for Noting {
    fn before<'a>(&'a self, delivery: &'a Delivery) -> BoxFuture<'a, Result<(), ListenerError>> {
        self.notes.note(format!("{} before {}", self.name, delivery.id()));
        Box::pin(async { Ok(()) })
    }

    fn after<'a>(
        &'a self,
        delivery: &'a Delivery,
        error: Option<&'a str>,
    ) -> BoxFuture<'a, Result<(), ListenerError>> {
        let how = error.unwrap_or("done");
        self.notes.note(format!("{} after {}: {how}", self.name, delivery.id()));
        Box::pin(async { Ok(()) })
    }
}

fn noting(name: &'static str, notes: &Notes) -> Noting {
    Noting { name, notes: notes.clone() }
}

/// D3, D6: interceptors run in order before the listener, and in reverse after it.
#[tokio::test(start_paused = true)]
async fn interceptors_run_in_order_and_back() {
    let (stage, notes) = (Stage::set(), Notes::new());
    let noted = notes.clone();
    let listener = move |delivery: Delivery| {
        noted.note(format!("listener {}", delivery.id()));
        std::future::ready(Ok::<(), ListenerError>(()))
    };
    let outbox = stage
        .outbox()
        .interceptor(noting("first", &notes))
        .interceptor(noting("second", &notes))
        .on("OrderPlaced", listener)
        .start()
        .unwrap();

    write(&outbox, placed("order-1")).await;
    stage.quiet().await;

    let expected = [
        "first before order-1",
        "second before order-1",
        "listener order-1",
        "second after order-1: done",
        "first after order-1: done",
    ];
    assert_eq!(notes.all(), expected);
}

/// D6: an error before ends the attempt as if the listener had failed.
#[tokio::test(start_paused = true)]
async fn error_before_counts_as_a_failure() {
    let (stage, seen, notes) = (Stage::set(), Notes::<Delivery>::new(), Notes::new());
    let outbox = stage
        .outbox()
        .interceptor(noting("outer", &notes))
        .interceptor(before(|_| async { Err(ListenerError::new("quota exceeded")) }))
        .on("OrderPlaced", seen.listener())
        .start()
        .unwrap();

    write(&outbox, placed("order-1")).await;
    stage.quiet().await;

    let row = stage.row("order-1").await;
    assert_eq!((row.status, row.attempts, seen.len()), (Ok(Status::Retry), 1, 0));
    assert_eq!(row.last_error.as_deref(), Some("quota exceeded"));
    assert_eq!(notes.all(), ["outer before order-1", "outer after order-1: quota exceeded"]);
}

/// D6, D10: a permanent error before is dead at once, and a panic before counts as failed.
#[tokio::test(start_paused = true)]
async fn verdict_of_an_interceptor_counts() {
    let (stage, seen) = (Stage::set(), Notes::<Delivery>::new());
    let check = |delivery: Delivery| match delivery.id() {
        "order-1" => panic!("the check broke"),
        _ => async { Err(ListenerError::permanent("forbidden")) },
    };
    let outbox =
        stage.outbox().interceptor(before(check)).on("OrderPlaced", seen.listener()).start().unwrap();

    write(&outbox, placed("order-1")).await;
    write(&outbox, placed("order-2")).await;
    stage.quiet().await;

    assert_eq!(stage.status("order-1").await, Status::Retry);
    assert_eq!(stage.status("order-2").await, Status::Dead);
    assert_eq!(seen.len(), 0);
}

/// D6: what fails or panics after a delivery is logged, and changes nothing.
#[tokio::test(start_paused = true)]
async fn error_after_changes_nothing() {
    let (stage, seen, logs) = (Stage::set(), Notes::<Delivery>::new(), Logs::collect());
    let outbox = stage
        .outbox()
        .workers(1)
        .interceptor(after(|_, _| async { Err(ListenerError::new("the audit is full")) }))
        .interceptor(after(|_, _| async { panic!("the audit broke later") }))
        .interceptor(after(|_, _| -> std::future::Ready<Result<(), ListenerError>> {
            panic!("the audit broke at once")
        }))
        .on("OrderPlaced", seen.listener())
        .start()
        .unwrap();

    write_all(&outbox, &["order-1".to_owned(), "order-2".to_owned()]).await;
    stage.quiet().await;

    assert_eq!(seen.ids(), ["order-1", "order-2"]);
    assert_eq!(stage.status("order-2").await, Status::Done);
    let warnings = logs.at(Level::WARN).join("\n");
    for text in ["the audit is full", "the audit broke later", "the audit broke at once"] {
        assert!(warnings.contains(text), "{warnings}");
    }
}

/// D3: interceptors see which way an event came, and which attempt it is.
#[tokio::test(start_paused = true)]
async fn source_and_attempt_are_visible() {
    let (stage, seen) = (Stage::set(), Notes::<(Source, u32)>::new());
    let noted = seen.clone();
    let outbox = stage
        .outbox()
        .interceptor(before(move |delivery| {
            noted.note((delivery.source(), delivery.attempt()));
            async { Ok(()) }
        }))
        .on("OrderPlaced", |delivery: Delivery| async move {
            if delivery.attempt() < 3 { Err(ListenerError::new("try again")) } else { Ok(()) }
        })
        .start()
        .unwrap();

    write(&outbox, placed("order-1")).await;
    stage.pass(crate::stage::HOUR).await;

    assert_eq!(seen.all(), [(Source::Hot, 1), (Source::Cold, 2), (Source::Cold, 3)]);
}

/// D6: in a run for a sink interceptors run once for each event, and an error takes out only that event.
#[tokio::test(start_paused = true)]
async fn interceptor_takes_one_event_out_of_a_run() {
    let (stage, sink, notes) = (Stage::set(), MemorySink::new(), Notes::new());
    let outbox = stage
        .outbox()
        .interceptor(noting("audit", &notes))
        .interceptor(before(|delivery| async move {
            if delivery.id() == "order-2" { Err(ListenerError::new("not allowed")) } else { Ok(()) }
        }))
        .on_sink(GLOBAL, "OrderPlaced", sink.clone())
        .start()
        .unwrap();

    write_all(&outbox, &crate::stage::orders(3)).await;
    stage.quiet().await;

    let published: Vec<_> = sink.published().iter().map(|delivery| delivery.id().to_owned()).collect();
    assert_eq!(published, ["order-1", "order-3"]);
    assert_eq!(stage.row("order-2").await.attempts, 1);
    let notes = notes.all();
    assert_eq!(notes.iter().filter(|note| note.starts_with("audit before")).count(), 3, "{notes:?}");
    assert_eq!(notes.iter().filter(|note| note.starts_with("audit after")).count(), 3, "{notes:?}");
}

/// D6, D10: interceptors and sink share the time of one delivery; events whose turn does not come in it go back
/// unspent, and none is published twice.
#[tokio::test(start_paused = true)]
async fn slow_interceptors_of_a_run_do_not_outlast_its_leases() {
    let (stage, sink) = (Stage::set(), MemorySink::new());
    let clock = stage.runtime.clock.clone();
    let slow = before(move |_| {
        let pause = clock.sleep(10 * SECOND);
        async move {
            pause.await;
            Ok(())
        }
    });
    let outbox =
        stage.outbox().interceptor(slow).on_sink(GLOBAL, "OrderPlaced", sink.clone()).start().unwrap();

    write_all(&outbox, &orders(8)).await;
    stage.pass(HOUR).await;

    let mut published: Vec<String> = sink.published().iter().map(|order| order.id().to_owned()).collect();
    published.sort();
    assert_eq!(published, orders(8));
    assert_eq!(outbox.counts().lost_leases, 0);
}
