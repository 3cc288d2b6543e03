//! Which dead events are meant, by what is known of them.

use std::time::SystemTime;

use clap::Args;
use pillarbox::store::StoredEvent;
use pillarbox::{Event, Pattern, Timestamp};

use crate::exit::Unusable;
use crate::moment::Moment;

/// What dead events have in common; all of it must hold.
#[derive(Args, Debug)]
pub(super) struct Filter {
    /// Only events of this type; `*` stands for any characters
    #[arg(long = "type", value_name = "PATTERN", value_parser = pattern)]
    event_type: Option<Pattern>,

    /// Only events that were written since then: an age like `2h`, or an instant like `2026-03-01T12:00:00Z`
    #[arg(long, value_name = "WHEN", allow_hyphen_values = true)]
    since: Option<Moment>,

    /// Only events that were written before then
    #[arg(long, value_name = "WHEN", allow_hyphen_values = true)]
    until: Option<Moment>,

    /// Only events whose last error has this text in it, in capitals or not
    #[arg(long, value_name = "TEXT", value_parser = text)]
    error: Option<String>,

    /// Only events of this key; `*` as above, here and below
    #[arg(long, value_name = "PATTERN", value_parser = pattern)]
    key: Option<Pattern>,

    /// Only events of the aggregate with this id
    #[arg(long, value_name = "PATTERN", value_parser = pattern)]
    aggregate: Option<Pattern>,

    /// Only events of this tenant
    #[arg(long, value_name = "PATTERN", value_parser = pattern)]
    tenant: Option<Pattern>,
}

fn pattern(given: &str) -> Result<Pattern, String> {
    if given.is_empty() {
        return Err(
            "nothing has an empty name; write it, or a part of it with `*`, for example `Order*`".into()
        );
    }
    Ok(Pattern::new(given))
}

fn text(given: &str) -> Result<String, String> {
    if given.trim().is_empty() {
        return Err("every error has it; write a part of the error, for example `timed out`".into());
    }
    Ok(given.to_lowercase())
}

impl Filter {
    /// Whether it lets everything pass.
    pub(super) fn is_empty(&self) -> bool {
        let patterns = [&self.event_type, &self.key, &self.aggregate, &self.tenant];
        let moments = [&self.since, &self.until];
        patterns.iter().all(|pattern| pattern.is_none())
            && moments.iter().all(|moment| moment.is_none())
            && self.error.is_none()
    }

    /// The filter as of now; refuses one that nothing could pass.
    pub(super) fn sieve(self) -> Result<Sieve, Unusable> {
        let now = Timestamp::from(SystemTime::now());
        let at = |moment: &Option<Moment>| moment.as_ref().map(|moment| moment.seen_from(now));
        let (since, until) = (at(&self.since), at(&self.until));
        if let (Some(given_since), Some(given_until)) = (&self.since, &self.until)
            && since >= until
        {
            return Err(Unusable(format!(
                "--since {given_since} is not before --until {given_until}: nothing lies between; exchange them, or \
                 leave one out"
            )));
        }
        Ok(Sieve { filter: self, since, until })
    }
}

/// A filter at one moment.
#[derive(Debug)]
pub(super) struct Sieve {
    filter: Filter,
    since: Option<Timestamp>,
    until: Option<Timestamp>,
}

impl Sieve {
    /// Whether this event is meant. What a row that cannot be read does not tell matches no pattern.
    pub(super) fn takes(&self, stored: &StoredEvent) -> bool {
        let Filter { event_type, key, aggregate, tenant, error, .. } = &self.filter;
        let event = stored.event.as_ref().ok();
        let is_like = |pattern: &Option<Pattern>, name: Option<&str>| {
            pattern.as_ref().is_none_or(|pattern| name.is_some_and(|name| pattern.matches(name)))
        };
        let has_error = error.as_ref().is_none_or(|part| {
            stored.last_error.as_ref().is_some_and(|said| said.to_lowercase().contains(part))
        });
        has_error
            && self.since.is_none_or(|since| stored.created_at >= since)
            && self.until.is_none_or(|until| stored.created_at < until)
            && is_like(event_type, event.map(Event::event_type))
            && is_like(key, event.and_then(Event::key))
            && is_like(aggregate, event.and_then(Event::aggregate_id))
            && is_like(tenant, event.and_then(Event::tenant_id))
    }
}
