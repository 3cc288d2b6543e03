//! What of an event becomes which attribute of CloudEvents.

use std::borrow::Cow;

use pillarbox::{Event, GLOBAL};

/// The version of CloudEvents that messages follow.
pub const SPEC_VERSION: &str = "1.0";

/// The attributes of an event. `partitionkey`, `traceparent` and `tracestate` are documented extensions;
/// `aggregatetype` and `tenantid` are ours. What the event does not have is not among them.
pub(crate) fn of<'e>(
    event: &'e Event,
    source: &'e str,
    data_type: &'e str,
) -> Vec<(&'static str, Cow<'e, str>)> {
    let aggregate_type = Some(event.aggregate_type()).filter(|name| *name != GLOBAL);
    let mut attributes = Vec::with_capacity(12);
    let always = [
        ("specversion", SPEC_VERSION),
        ("id", event.id()),
        ("source", source),
        ("type", event.event_type()),
        ("datacontenttype", data_type),
    ];
    attributes.extend(always.map(|(name, value)| (name, Cow::Borrowed(value))));
    attributes.push(("time", Cow::Owned(event.occurred_at().to_string())));
    let sometimes = [
        ("subject", event.aggregate_id()),
        ("partitionkey", event.key()),
        ("aggregatetype", aggregate_type),
        ("tenantid", event.tenant_id()),
        ("traceparent", event.headers().get("traceparent")),
        ("tracestate", event.headers().get("tracestate")),
    ];
    let there = sometimes.into_iter().filter_map(|(name, value)| Some((name, Cow::Borrowed(value?))));
    // CloudEvents knows no attribute without a value.
    attributes.extend(there.filter(|(_, value)| !value.is_empty()));
    attributes
}
