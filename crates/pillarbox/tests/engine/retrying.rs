//! What follows a failure.

use std::error::Error;
use std::time::Duration;

use pillarbox::store::Status;
use pillarbox::{Delivery, ListenerError, OutboxBuilder, Retry, RetryPolicy, Store};

use crate::stage::{HOUR, Notes, SECOND, Stage, placed, write};

/// When each attempt at an event that always fails began, after the first one.
pub(crate) async fn attempts_after<S: Store>(stage: &Stage, outbox: OutboxBuilder<S>) -> Vec<Duration> {
    let times = Notes::<Duration>::new();
    let (noted, clock) = (times.clone(), stage.runtime.clock.clone());
    let listener = move |_: Delivery| {
        noted.note(clock.now());
        std::future::ready(Err(ListenerError::new("no answer")))
    };
    let outbox = outbox.on("OrderPlaced", listener).start().unwrap();
    write(&outbox, placed("order-1")).await;
    stage.pass(HOUR).await;
    let times = times.all();
    times.windows(2).map(|pair| pair[1] - pair[0]).collect()
}

/// The default delay before the retry `index`, without its spread.
fn nominal(index: usize) -> Duration {
    Duration::from_millis(200 << index).min(60 * SECOND)
}

#[track_caller]
pub(crate) fn close(delays: &[Duration], expected: &[u64]) {
    let fits = |(delay, &millis): (&Duration, &u64)| {
        (Duration::from_millis(millis)..Duration::from_millis(millis + 30)).contains(delay)
    };
    assert_eq!(delays.len(), expected.len(), "{delays:?}");
    assert!(delays.iter().zip(expected).all(fits), "{delays:?} is not {expected:?}");
}

/// T4: five attempts, 100 ms doubling: dead at the fifth failure, and 1,600 ms are never waited.
#[tokio::test(start_paused = true)]
async fn max_attempts_counts_the_first_delivery() {
    let stage = Stage::set();
    let retry = Retry::exponential().initial(Duration::from_millis(100)).max_attempts(5);

    let delays = attempts_after(&stage, stage.outbox().retry(retry)).await;

    close(&delays, &[100, 200, 400, 800]);
    let row = stage.row("order-1").await;
    assert_eq!((row.status, row.attempts), (Ok(Status::Dead), 5));
}

/// T4: with five retries all five delays are waited.
#[tokio::test(start_paused = true)]
async fn max_retries_does_not_count_the_first_delivery() {
    let stage = Stage::set();
    let retry = Retry::exponential().initial(Duration::from_millis(100)).max_retries(5);

    let delays = attempts_after(&stage, stage.outbox().retry(retry)).await;

    close(&delays, &[100, 200, 400, 800, 1_600]);
    assert_eq!(stage.row("order-1").await.attempts, 6);
}

/// T1, D1: by default ten attempts, from 200 ms doubling to 60 s, each times 0.5 to 1.5.
#[tokio::test(start_paused = true)]
async fn default_policy_doubles_with_a_spread() {
    let stage = Stage::set();

    let delays = attempts_after(&stage, stage.outbox()).await;

    assert_eq!(delays.len(), 9, "{delays:?}");
    for (index, delay) in delays.iter().enumerate() {
        let nominal = nominal(index);
        let range = nominal / 2..nominal + nominal / 2 + Duration::from_millis(30);
        assert!(range.contains(delay), "delay {index} of {delays:?}");
    }
    assert_eq!(stage.status("order-1").await, Status::Dead);
}

/// T1: the delays repeat from a seed, differ between seeds, and are spread over the whole range.
#[tokio::test(start_paused = true)]
async fn delays_repeat_from_a_seed() {
    let delays = async |seed| {
        let stage = Stage::seeded(seed);
        attempts_after(&stage, stage.outbox()).await
    };

    let (first, second, other) = (delays(17).await, delays(17).await, delays(18).await);
    let mut spreads = Vec::new();
    for seed in 1..=10 {
        let drawn = delays(seed).await.into_iter().enumerate();
        spreads.extend(drawn.map(|(index, delay)| delay.as_secs_f64() / nominal(index).as_secs_f64()));
    }

    assert_eq!(first, second);
    assert_ne!(first, other);
    for (from, to) in [(0.5, 0.75), (0.75, 1.0), (1.0, 1.25), (1.25, 1.5)] {
        let share = spreads.iter().filter(|spread| (from..to).contains(*spread)).count();
        assert!(share >= 10, "{share} of {} lie between {from} and {to}", spreads.len());
    }
}

/// D13: a listener can ask for its own delay, with or without spending an attempt.
#[tokio::test(start_paused = true)]
async fn listener_asks_for_its_own_delay() {
    let (stage, seen) = (Stage::set(), Notes::<Delivery>::new());
    let times = Notes::<Duration>::new();
    let (noted, clock) = (times.clone(), stage.runtime.clock.clone());
    let listener = seen.clone();
    let listener = move |delivery: Delivery| {
        noted.note(clock.now());
        listener.note(delivery);
        std::future::ready(match listener.len() {
            1 => Err(ListenerError::not_now(40 * SECOND, "closed for lunch")),
            2 => Err(ListenerError::retry_after(20 * SECOND, "429")),
            _ => Ok(()),
        })
    };
    let outbox = stage.outbox().on("OrderPlaced", listener).start().unwrap();

    write(&outbox, placed("order-1")).await;
    stage.pass(HOUR).await;

    let attempts: Vec<u32> = seen.all().iter().map(Delivery::attempt).collect();
    assert_eq!(attempts, [1, 1, 2]);
    let times = times.all();
    close(&[times[1] - times[0], times[2] - times[1]], &[40_000, 20_000]);
    assert_eq!(stage.row("order-1").await.attempts, 1);
    assert_eq!(outbox.counts().failed, 1);
}

/// D13: an event that waits for ever holds up its key, and nobody else.
#[tokio::test(start_paused = true)]
async fn endless_delay_holds_up_nobody_else() {
    let (stage, seen) = (Stage::set(), Notes::<Delivery>::new());
    let listener = seen.answering(|delivery| match delivery.id() {
        "order-1" => Err(ListenerError::not_now(Duration::MAX, "never")),
        _ => Ok(()),
    });
    let outbox = stage.outbox().ordered().on("OrderPlaced", listener).start().unwrap();
    // At the clock's very first moment nothing can overflow.
    stage.pass(SECOND).await;

    for id in ["order-1", "order-2"] {
        write(&outbox, placed(id)).await;
        stage.pass(60 * SECOND).await;
    }

    let statuses = [stage.status("order-1").await, stage.status("order-2").await];
    assert_eq!(statuses, [Status::Retry, Status::Done]);
}

/// D13, T2: delays of its own do not save an event from its last attempt.
#[tokio::test(start_paused = true)]
async fn own_delay_that_spends_ends_with_the_attempts() {
    let (stage, seen) = (Stage::set(), Notes::<Delivery>::new());
    let listener = seen.answering(|_| Err(ListenerError::retry_after(SECOND, "429")));
    let outbox = stage
        .outbox()
        .on("OrderPlaced", listener)
        .retry(Retry::fixed(Duration::ZERO).max_attempts(3))
        .start()
        .unwrap();

    write(&outbox, placed("order-1")).await;
    stage.pass(HOUR).await;

    assert_eq!(seen.len(), 3);
    assert_eq!(stage.status("order-1").await, Status::Dead);
}

/// D3: an error that no retry can cure is dead at once, with its attempt and its causes.
#[tokio::test(start_paused = true)]
async fn permanent_error_is_dead_at_once() {
    let (stage, seen) = (Stage::set(), Notes::<Delivery>::new());
    let listener = seen.answering(|_| Err(ListenerError::permanent("no such customer")));
    let outbox = stage.outbox().on("OrderPlaced", listener).start().unwrap();

    write(&outbox, placed("order-1")).await;
    stage.pass(HOUR).await;

    let row = stage.row("order-1").await;
    assert_eq!((seen.len(), row.status, row.attempts), (1, Ok(Status::Dead), 1));
    assert_eq!(row.last_error.as_deref(), Some("no such customer"));
}

/// T2: a policy of the user's own decides by the error.
#[tokio::test(start_paused = true)]
async fn own_policy_decides_by_the_error() {
    struct OnlyIo;

    impl RetryPolicy for OnlyIo {
        fn max_attempts(&self) -> u32 {
            4
        }
        fn next_delay(&self, _: u32, _: f64) -> Duration {
            SECOND
        }
        fn should_retry(&self, error: &(dyn Error + 'static)) -> bool {
            error.is::<std::io::Error>()
        }
    }
    let (stage, seen) = (Stage::set(), Notes::<Delivery>::new());
    let listener = seen.answering(|delivery| match delivery.attempt() {
        1 => Err(std::io::Error::other("connection reset").into()),
        _ => Err(std::fmt::Error.into()),
    });
    let outbox = stage.outbox().on("OrderPlaced", listener).retry_policy(OnlyIo).start().unwrap();

    write(&outbox, placed("order-1")).await;
    stage.pass(HOUR).await;

    assert_eq!(seen.len(), 2);
    assert_eq!(stage.status("order-1").await, Status::Dead);
}

/// T2: delays grow by the multiplier from the first to the longest.
#[tokio::test(start_paused = true)]
async fn multiplier_and_maximum_shape_the_delays() {
    let stage = Stage::set();
    let retry = Retry::exponential().initial(Duration::from_millis(100)).multiplier(3.0).max(SECOND);

    let delays = attempts_after(&stage, stage.outbox().retry(retry.max_retries(4))).await;

    close(&delays, &[100, 300, 900, 1_000]);
}

/// T2: a policy of the user's own says how long to wait and when to give up.
#[tokio::test(start_paused = true)]
async fn own_policy_has_its_own_delays_and_limit() {
    struct Squares;

    impl RetryPolicy for Squares {
        fn max_attempts(&self) -> u32 {
            4
        }
        fn next_delay(&self, attempt: u32, _: f64) -> Duration {
            attempt * attempt * SECOND
        }
        fn should_retry(&self, _: &(dyn Error + 'static)) -> bool {
            true
        }
    }
    let stage = Stage::set();

    let delays = attempts_after(&stage, stage.outbox().retry_policy(Squares)).await;

    close(&delays, &[1_000, 4_000, 9_000]);
    assert_eq!(stage.status("order-1").await, Status::Dead);
}
