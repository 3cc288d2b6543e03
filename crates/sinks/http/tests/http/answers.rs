//! What the receiver says, and what becomes of it.

use std::time::Duration;

use axum::body::Body;
use axum::http::Response;
use pillarbox_http::HttpOptions;

use crate::receiver::Receiver;
use crate::{error, event, order_placed, publish};

/// K2: a refusal is told with what the receiver says, and only the event that was refused is.
#[tokio::test]
async fn refusal_is_told_in_the_words_of_the_receiver() {
    let receiver = Receiver::answering(|received| {
        let is_bad = received.id() == "bad";
        let (status, text) = if is_bad { (422, "no such\r\norder: 17") } else { (200, "ok") };
        Box::pin(async move { Response::builder().status(status).body(Body::from(text)).unwrap() })
    })
    .await;
    let sink = receiver.sink(HttpOptions::new());

    let answers = publish(&sink, &[event("good"), event("bad"), event("better")]).await;

    assert_eq!((&answers[0], &answers[2]), (&Ok(()), &Ok(())));
    let error = answers[1].as_ref().unwrap_err();
    let origin = format!("http://{}", receiver.address());
    assert!(error.is_rejected() && !error.is_final(), "{error:?}");
    assert_eq!(error.to_string(), format!("`{origin}` answered 422 Unprocessable Entity: no such order: 17"));
}

/// T5: a receiver that asks to be left alone gets nothing more of the run, and the engine learns for how long.
#[tokio::test]
async fn receiver_that_asks_for_a_pause_gets_it() {
    for asked in ["120", "Tue, 15 Nov 1994 08:14:31 GMT"] {
        let receiver = Receiver::answering(move |_| {
            let answer = Response::builder().status(429).header("retry-after", asked);
            Box::pin(async move { answer.body(Body::empty()).unwrap() })
        })
        .await;
        // 1994-11-15, 08:12:31.
        let now = std::time::UNIX_EPOCH + Duration::from_secs(784_887_151);
        let sink = receiver.sink(HttpOptions::new().concurrency(1).clock(move || now));

        let answers = publish(&sink, &[event("first"), event("second"), event("third")]).await;

        for answer in answers {
            let error = answer.unwrap_err();
            assert!(error.is_unavailable(), "{error:?}");
            assert_eq!(error.asked_delay(), Some(Duration::from_secs(120)), "{asked}");
        }
        assert_eq!(receiver.ids(), ["first"]);
    }
}

/// K2: redirects are not followed.
#[tokio::test]
async fn redirect_is_not_followed() {
    let elsewhere = Receiver::accepting().await;
    let location = format!("http://{}/s3cret", elsewhere.address());
    let receiver = Receiver::answering(move |_| {
        let answer = Response::builder().status(307).header("location", location.clone());
        Box::pin(async move { answer.body(Body::empty()).unwrap() })
    })
    .await;
    let sink = receiver.sink(HttpOptions::new());

    let error = error(&sink, event("01")).await;

    assert!(error.is_rejected() && !error.is_final(), "{error:?}");
    assert!(
        error.to_string().contains("points to `127.0.0.1`") && !error.to_string().contains("s3cret"),
        "{error}"
    );
    assert!(elsewhere.received().is_empty());
}

/// K2: a receiver cannot make the sink read without end.
#[tokio::test]
async fn endless_answer_is_cut() {
    let receiver = Receiver::answering(|received| {
        let status = if received.id() == "accepted" { 200 } else { 400 };
        let endless = futures_util::stream::repeat_with(|| Ok::<_, std::io::Error>(vec![b'x'; 8_192]));
        Box::pin(async move { Response::builder().status(status).body(Body::from_stream(endless)).unwrap() })
    })
    .await;
    let sink = receiver.sink(HttpOptions::new());

    let answers = publish(&sink, &[event("accepted"), event("refused")]).await;

    assert_eq!(answers[0], Ok(()));
    let error = answers[1].as_ref().unwrap_err();
    assert!(error.is_rejected() && error.to_string().len() < 400, "{error}");
}

/// K2: fixed headers are sent with every request, and are not shown when the receiver repeats them.
#[tokio::test]
async fn fixed_headers_are_sent_and_not_shown() {
    let receiver = Receiver::answering(|received| {
        let text = format!("you sent {} to {}", received.header("authorization"), received.path);
        Box::pin(async move { Response::builder().status(401).body(Body::from(text)).unwrap() })
    })
    .await;
    let sink = receiver.sink(HttpOptions::new().header("Authorization", "Bearer s3cret").unwrap());
    let event = order_placed("01").header("authorization", "Bearer theirs").build().unwrap();

    let error = error(&sink, event).await;

    assert_eq!(receiver.received()[0].header("authorization"), "Bearer s3cret");
    assert!(error.to_string().ends_with("401 Unauthorized: you sent … to …"), "{error}");
    assert!(!format!("{sink:?}").contains("s3cret"));
}

/// K2: what the receiver says about the size is for good.
#[tokio::test]
async fn receiver_that_finds_it_too_large_is_believed() {
    let receiver = Receiver::with_status(|_| 413).await;
    let sink = receiver.sink(HttpOptions::new());

    let error = error(&sink, event("01")).await;

    assert!(error.is_rejected() && error.is_final(), "{error:?}");
    assert!(error.to_string().ends_with("a body of 15 bytes is over its limit"), "{error}");
}
