//! One after the other, and at the same time.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pillarbox::Event;
use pillarbox_http::HttpOptions;
use tokio::sync::Barrier;

use crate::receiver::{Receiver, status};
use crate::{event, of_key, publish};

/// O1: of one key there is never more than one request under way; others do not wait for it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_of_a_key_are_sent_one_after_the_other() {
    let (under_way, most) =
        (Arc::new(Mutex::new(BTreeMap::<String, usize>::new())), Arc::new(AtomicUsize::new(0)));
    let noted = most.clone();
    let receiver = Receiver::answering(move |received| {
        let (under_way, noted) = (under_way.clone(), noted.clone());
        Box::pin(async move {
            let key = received.header("ce-partitionkey").to_owned();
            let count = {
                let mut under_way = under_way.lock().unwrap();
                *under_way.entry(key.clone()).and_modify(|count| *count += 1).or_insert(1)
            };
            noted.fetch_max(count, Ordering::Relaxed);
            // Whoever would come meanwhile has the time to.
            for _ in 0..50 {
                tokio::task::yield_now().await;
            }
            *under_way.lock().unwrap().get_mut(&key).unwrap() -= 1;
            status(200)
        })
    })
    .await;
    let sink = receiver.sink(HttpOptions::new());
    let events: Vec<Event> =
        (0..60).map(|number| of_key(&format!("{number:02}"), &format!("k{}", number % 3))).collect();

    let answers = publish(&sink, &events).await;

    assert!(answers.iter().all(Result::is_ok));
    assert_eq!(most.load(Ordering::Relaxed), 1);
}

/// D7: different keys, and events without one, are under way at the same time, as many as are allowed and no more; all
/// runs of a sink share the places.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn as_many_are_under_way_as_are_allowed() {
    let (under_way, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    // It answers three at a time: one after the other, none would ever be answered.
    let three = Arc::new(Barrier::new(3));
    let noted = most.clone();
    let receiver = Receiver::answering(move |_| {
        let (under_way, noted, three) = (under_way.clone(), noted.clone(), three.clone());
        Box::pin(async move {
            noted.fetch_max(under_way.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
            three.wait().await;
            under_way.fetch_sub(1, Ordering::Relaxed);
            status(200)
        })
    })
    .await;
    let sink = receiver.sink(HttpOptions::new().concurrency(3));
    let keyed: Vec<Event> =
        (0..6).map(|number| of_key(&format!("a{number}"), &format!("k{number}"))).collect();
    let free: Vec<Event> = (0..6).map(|number| event(&format!("b{number}"))).collect();

    let (first, second) = tokio::join!(publish(&sink, &keyed), publish(&sink, &free));

    assert!(first.iter().chain(&second).all(Result::is_ok), "{first:?} {second:?}");
    assert_eq!(most.load(Ordering::Relaxed), 3);
}

/// O2: what follows a failed event of its key is not sent, costs no attempt, and does not speak against the receiver;
/// other keys go on.
#[tokio::test]
async fn what_follows_a_failed_event_of_its_key_is_not_sent() {
    for (answer, is_final) in [(500, false), (410, true), (502, false)] {
        let receiver =
            Receiver::with_status(move |received| if received.id() == "a2" { answer } else { 200 }).await;
        let sink = receiver.sink(HttpOptions::new());
        let of = |id: &str| of_key(id, &id[..1]);

        let answers = publish(&sink, &["a1", "a2", "b1", "a3", "b2", "a4"].map(of)).await;

        let sent: Vec<bool> = answers.iter().map(Result::is_ok).collect();
        assert_eq!(sent, [true, false, true, false, true, false], "{answer}");
        assert_eq!(answers[1].as_ref().unwrap_err().is_final(), is_final);
        for behind in [3, 5] {
            let error = answers[behind].as_ref().unwrap_err();
            assert!(error.is_not_sent(), "{error:?}");
            assert_eq!(error.to_string(), "an earlier event of its key was not published");
        }
        let ids = receiver.ids();
        assert!(!ids.contains(&"a3".to_owned()) && !ids.contains(&"a4".to_owned()), "{ids:?}");
    }
}

/// O2: so it is when the event is refused before anything is sent.
#[tokio::test]
async fn what_follows_an_event_that_cannot_be_sent_is_not_sent() {
    let receiver = Receiver::accepting().await;
    let sink = receiver.sink(HttpOptions::new().max_body(20));
    let large =
        crate::order_placed("large").key("a").json_text(r#"{"total": 4200, "more": 1}"#).build().unwrap();

    let answers = publish(&sink, &[large, of_key("a2", "a"), of_key("b1", "b")]).await;

    assert!(answers[0].as_ref().unwrap_err().is_final());
    assert!(answers[1].as_ref().unwrap_err().is_not_sent());
    assert_eq!((&answers[2], receiver.ids()), (&Ok(()), vec!["b1".to_owned()]));
}

/// D8, D10: a slow receiver does not make a run outlive its delivery: what has no time left is given back.
#[tokio::test]
async fn run_ends_in_time_though_the_receiver_is_slow() {
    let receiver = Receiver::accepting().await;
    let sink = receiver.sink(HttpOptions::new().send_for(Duration::ZERO));

    let answers = publish(&sink, &[event("01"), event("02")]).await;

    for answer in answers {
        let error = answer.unwrap_err();
        assert!(error.is_not_sent() && error.to_string().contains("`send_for`"), "{error:?}");
    }
    assert!(receiver.received().is_empty());
}
