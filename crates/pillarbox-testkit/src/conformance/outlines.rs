//! Events without what they carry.

use pillarbox::Event;
use pillarbox::store::{Administration, Outcome, Outline, Page, StoredEvent};

use super::settlements::{dead, retry};
use super::{LONG, StoreHarness, claim_one, order_placed, settle, stored, write};

/// What an outline of this row says.
fn outline_of(row: StoredEvent) -> Outline {
    let event = row.event.unwrap();
    Outline {
        seq: row.seq,
        event_id: row.event_id,
        event_type: event.event_type().to_owned(),
        aggregate_id: event.aggregate_id().map(str::to_owned),
        key: event.key().map(str::to_owned),
        status: row.status,
        attempts: row.attempts,
        created_at: row.created_at,
        done_at: row.done_at,
        last_error: row.last_error,
        reason: row.reason,
    }
}

/// Writes one event for each of these outcomes, and one more; gives their outlines.
async fn placed(harness: &impl StoreHarness) -> Vec<Outline> {
    let aside = Outcome::Aside { until: Some(LONG), reason: "paused: route `orders`".into() };
    let mut outlines = Vec::new();
    for outcome in [Outcome::Done, retry(LONG, true), aside, dead("410 · ещё нет", true)] {
        write(harness, &[order_placed("order-17")]).await;
        let taken = claim_one(harness).await;
        settle(harness, &taken, outcome).await;
        outlines.push(outline_of(stored(harness, &taken.event_id).await));
    }
    let event = Event::builder("Ping").json_text("{}").build().unwrap();
    write(harness, std::slice::from_ref(&event)).await;
    outlines.push(outline_of(stored(harness, event.id()).await));
    outlines
}

/// M5: events of any status are told page by page in the order of their numbers, each as its row is.
pub async fn events_are_outlined_by_number(harness: &impl StoreHarness) {
    let expected = placed(harness).await;

    let first = harness.store().outlines(Page { after: 0, limit: 3 }).await.unwrap();
    let rest = harness.store().outlines(Page { after: first[2].seq, limit: 3 }).await.unwrap();
    let none = harness.store().outlines(Page { after: rest[1].seq, limit: 3 }).await.unwrap();

    assert_eq!([first, rest].concat(), expected);
    assert!(none.is_empty());
}

/// M5: those with given numbers are told in the order of these, each once; numbers that nobody has are left out.
pub async fn outlines_are_found_by_numbers(harness: &impl StoreHarness) {
    let expected = placed(harness).await;
    let (first, last) = (&expected[0], &expected[4]);

    let found = harness.store().outlines_of(&[last.seq, 0, first.seq, last.seq, i64::MAX]).await.unwrap();
    let none = harness.store().outlines_of(&[]).await.unwrap();

    assert_eq!(found, [first.clone(), last.clone()]);
    assert!(none.is_empty());
}

/// M5: many are found at once.
pub async fn many_outlines_are_found_at_once(harness: &impl StoreHarness) {
    let events: Vec<Event> = (0..1_200).map(|n| order_placed(&format!("order-{n}"))).collect();
    write(harness, &events).await;
    let all = harness.store().outlines(Page { after: 0, limit: 2_000 }).await.unwrap();
    let mut numbers: Vec<i64> = all.iter().map(|outline| outline.seq).collect();
    numbers.reverse();

    let found = harness.store().outlines_of(&numbers).await.unwrap();

    assert_eq!(found.len(), 1_200);
    assert_eq!(found, all);
}

/// M5: of a row that cannot be read as much is told as can be.
pub async fn unreadable_row_is_outlined(harness: &impl StoreHarness) {
    let event = order_placed("order-17");
    write(harness, &[order_placed("order-16"), event.clone()]).await;
    harness.corrupt(event.id()).await;

    let outlines = harness.store().outlines(Page { after: 0, limit: 3 }).await.unwrap();

    assert_eq!((outlines.len(), outlines[1].event_id.as_str()), (2, event.id()));
}
