//! Signatures are of the time of sending.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, UNIX_EPOCH};

use pillarbox_http::HttpOptions;

use crate::receiver::Receiver;
use crate::{event, publish};

/// K2: an event that is sent again keeps its id and is signed anew, for receivers refuse old signatures.
#[tokio::test]
async fn each_attempt_is_signed_anew() {
    let receiver = Receiver::accepting().await;
    let seconds = Arc::new(AtomicU64::new(1_700_000_000));
    let now = seconds.clone();
    let options = HttpOptions::new()
        .sign_with("whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD".parse().unwrap())
        .clock(move || UNIX_EPOCH + Duration::from_secs(now.load(Ordering::Relaxed)));
    let sink = receiver.sink(options);

    publish(&sink, &[event("01")]).await;
    seconds.fetch_add(3_600, Ordering::Relaxed);
    publish(&sink, &[event("01")]).await;

    let received = receiver.received();
    let [first, second] = received.as_slice() else { panic!("{received:?}") };
    assert_eq!((first.header("webhook-id"), second.header("webhook-id")), ("01", "01"));
    assert_eq!(first.header("webhook-timestamp"), "1700000000");
    assert_eq!(second.header("webhook-timestamp"), "1700003600");
    assert_ne!(first.header("webhook-signature"), second.header("webhook-signature"));
}

/// K2: without a secret nothing looks like a signature.
#[tokio::test]
async fn unsigned_event_has_no_headers_of_a_signature() {
    let receiver = Receiver::accepting().await;
    let sink = receiver.sink(HttpOptions::new());

    publish(&sink, &[crate::order_placed("01").header("webhook-signature", "v1,forged").build().unwrap()])
        .await;

    assert!(!receiver.received()[0].headers.keys().any(|name| name.as_str().starts_with("webhook-")));
}
