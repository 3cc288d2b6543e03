//! Routes that operators pause, and what waits for them.

use std::sync::Arc;
use std::time::Duration;

use pillarbox::store::{Administration, Outcome, PausedRoute, Status, Taken};

use super::settlements::{dead, retry};
use super::steps::ids;
use super::{
    LONG, NONE, StoreHarness, claim, claim_one, order_placed, order_placed_available_at, settle, stored,
    within, write,
};

/// Why events wait in these cases, as the engine says it.
const REASON: &str = "paused: route `orders`";

/// Set aside because the route is paused.
pub(super) fn paused(until: Duration) -> Outcome {
    Outcome::Aside { until: Some(until), reason: REASON.into() }
}

async fn names(store: &impl Administration) -> Vec<String> {
    store.paused_routes().await.unwrap().into_iter().map(|route| route.name).collect()
}

/// Writes an event, takes it and settles it so.
async fn placed(harness: &impl StoreHarness, order: &str, outcome: Outcome) -> Taken {
    write(harness, &[order_placed(order)]).await;
    let taken = claim_one(harness).await;
    assert_eq!(settle(harness, &taken, outcome).await, NONE);
    taken
}

/// M5: a route is paused until it is resumed; who does so again is told that nothing changed.
pub async fn paused_route_stays_paused(harness: &impl StoreHarness) {
    let store = harness.store();
    assert_eq!(names(&**store).await, Vec::<String>::new());

    assert!(store.pause_route("orders").await.unwrap());
    assert!(store.pause_route("invoices").await.unwrap());
    let first = store.paused_routes().await.unwrap();
    assert!(!store.pause_route("orders").await.unwrap());
    let again = store.paused_routes().await.unwrap();
    assert!(store.resume_route("orders").await.unwrap());
    assert!(!store.resume_route("orders").await.unwrap());

    assert_eq!(first, again, "it is paused since it was paused first");
    assert_eq!(first.iter().map(|route| &*route.name).collect::<Vec<_>>(), ["invoices", "orders"]);
    assert_eq!(names(&**store).await, ["invoices"]);
    write(harness, &[order_placed("order-17")]).await;
    let row = claim_one(harness).await;
    within(row.created_at, first[0].since.unwrap(), Duration::ZERO);
}

/// M5: what one process pauses is paused for every other, and any of them resumes it.
pub async fn paused_route_is_seen_elsewhere(harness: &impl StoreHarness) {
    let Some(elsewhere) = harness.elsewhere().await else { return };
    harness.store().pause_route("orders").await.unwrap();

    assert_eq!(names(&*elsewhere).await, ["orders"]);
    assert!(!elsewhere.pause_route("orders").await.unwrap());
    assert!(elsewhere.resume_route("orders").await.unwrap());

    assert_eq!(names(&**harness.store()).await, Vec::<String>::new());
    assert!(!harness.store().resume_route("orders").await.unwrap());
}

/// M5: any text is kept as it is, and no two are taken for one.
pub async fn names_of_routes_are_kept(harness: &impl StoreHarness) {
    let store = harness.store();
    let odd = ["", " ", "A", "a", "a ", "o'reilly", "%", "_", ":", "paused:a", "a;--", "заказы", "\"`\\"];
    for name in odd {
        assert!(store.pause_route(name).await.unwrap(), "{name:?}");
    }

    let mut expected = odd.map(str::to_owned);
    expected.sort();
    assert_eq!(names(&**store).await, expected);
    for name in odd {
        assert!(store.resume_route(name).await.unwrap(), "{name:?}");
    }

    assert_eq!(store.paused_routes().await.unwrap(), Vec::<PausedRoute>::new());
}

/// M5: of several who pause a route at once one has done it, and likewise of those who resume it.
pub async fn one_of_several_operators_is_told(harness: &impl StoreHarness) {
    let elsewhere = harness.elsewhere().await.unwrap_or_else(|| Arc::clone(harness.store()));
    for _ in 0..10 {
        let (here, there) =
            tokio::join!(harness.store().pause_route("orders"), elsewhere.pause_route("orders"));
        assert_eq!(u8::from(here.unwrap()) + u8::from(there.unwrap()), 1);
        assert_eq!(names(&*elsewhere).await, ["orders"]);

        let (here, there) =
            tokio::join!(harness.store().resume_route("orders"), elsewhere.resume_route("orders"));
        assert_eq!(u8::from(here.unwrap()) + u8::from(there.unwrap()), 1);
    }
}

/// M5: what was set aside for a reason can be taken when it is recalled, with nothing counted and as long due as before.
pub async fn recalled_event_can_be_taken(harness: &impl StoreHarness) {
    write(harness, &[order_placed_available_at("order-17", 1_000_000), order_placed("order-18")]).await;
    let taken = claim(harness, 2).await.events;
    for taken in taken.iter().rev() {
        settle(harness, taken, paused(LONG)).await;
    }
    let due_at = stored(harness, &taken[0].event_id).await.due_at;
    assert!(claim(harness, 2).await.events.is_empty());

    assert_eq!(PausedRoute::recall(&**harness.store(), "orders").await.unwrap(), 2);

    let row = stored(harness, &taken[0].event_id).await;
    assert_eq!((row.status, row.attempts, row.starts), (Ok(Status::Retry), 0, 0));
    assert_eq!((row.due_at, row.available_at, row.reason), (due_at, due_at, None));
    let again = claim(harness, 2).await.events;
    assert_eq!(ids(&again), ids(&taken), "in the order in which they are due");
    assert_eq!(PausedRoute::recall(&**harness.store(), "orders").await.unwrap(), 0);
}

/// M5: nothing is recalled but what was set aside for that very reason and is held by nobody.
pub async fn nothing_else_is_recalled(harness: &impl StoreHarness) {
    let other = Outcome::Aside { until: Some(LONG), reason: "paused: route `orders-2`".into() };
    let mut kept = Vec::new();
    for outcome in [other, retry(LONG, true), dead("410", true), Outcome::Done] {
        kept.push(placed(harness, "order-17", outcome).await);
    }
    // Its reason stands there until it is settled.
    placed(harness, "order-17", paused(Duration::ZERO)).await;
    kept.push(claim_one(harness).await);
    let mut before = Vec::new();
    for taken in &kept {
        before.push(format!("{:?}", stored(harness, &taken.event_id).await));
    }

    assert_eq!(harness.store().recall(REASON, 100).await.unwrap(), 0);

    for (taken, before) in kept.iter().zip(before) {
        assert_eq!(format!("{:?}", stored(harness, &taken.event_id).await), before);
    }
    assert_eq!(settle(harness, &kept[4], Outcome::Done).await, NONE);
}

/// M5: events are recalled a few at a time, as many as were asked for.
pub async fn recall_goes_in_bounded_steps(harness: &impl StoreHarness) {
    for _ in 0..5 {
        placed(harness, "order-17", paused(LONG)).await;
    }

    let mut steps = Vec::new();
    for _ in 0..4 {
        steps.push(harness.store().recall(REASON, 2).await.unwrap());
    }

    assert_eq!(steps, [2, 2, 1, 0]);
    assert_eq!(claim(harness, 10).await.events.len(), 5);
}
