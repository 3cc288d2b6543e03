//! What a purge would delete.

use std::collections::BTreeSet;
use std::time::{Duration, SystemTime};

use pillarbox::Timestamp;
use pillarbox::store::{Administration, Outline, Page, Status};
use pillarbox_any::AnyStore;

use super::STEP;
use crate::{figure, keys, terminal};

/// Counts the events that a purge would delete. It goes through the table, as a purge does.
pub(super) async fn count(store: &AnyStore, older_than: Duration, dead_too: bool) -> anyhow::Result<u64> {
    let now = Timestamp::from(SystemTime::now()).as_micros();
    let age = i64::try_from(older_than.as_micros()).unwrap_or(i64::MAX);
    let until = Timestamp::from_micros(now.saturating_sub(age));
    let kept = if dead_too { Some(keys::parked_for(store).await?) } else { None };
    let highest = store.highest().await?;
    let bar = terminal::bar(u64::try_from(highest).unwrap_or(0), "  looking {wide_bar} {percent} % · {msg}");
    let (mut after, mut matching) = (0, 0);
    while after < highest {
        let page = store.outlines(Page { after, limit: STEP }).await?;
        let Some(last) = page.last() else { break };
        after = last.seq;
        matching += page.iter().filter(|event| is_old(event, until, kept.as_ref())).count() as u64;
        bar.set_position(u64::try_from(after).unwrap_or(0));
        bar.set_message(figure::events(matching));
    }
    bar.finish_and_clear();
    Ok(matching)
}

/// Whether it was done until then; or, where dead events are meant too, is dead, was written until then, and is none of
/// those that are kept.
fn is_old(event: &Outline, until: Timestamp, kept: Option<&BTreeSet<String>>) -> bool {
    match event.status {
        Ok(Status::Done) => event.done_at.is_some_and(|done_at| done_at <= until),
        Ok(Status::Dead) => {
            event.created_at <= until && kept.is_some_and(|kept| !kept.contains(&event.event_id))
        }
        _ => false,
    }
}
