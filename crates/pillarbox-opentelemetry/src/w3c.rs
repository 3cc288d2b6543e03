//! The two headers of W3C Trace Context, as OpenTelemetry's places in a trace.

use opentelemetry::trace::{SpanContext, SpanId, TraceFlags, TraceId, TraceState};
use pillarbox::TraceContext;

/// The length of a `traceparent` of version 00: the shortest there is.
const SHORTEST: usize = 55;

/// A place in a trace as headers; `None` if it is no valid one.
pub(crate) fn written(place: &SpanContext) -> Option<TraceContext> {
    if !place.is_valid() {
        return None;
    }
    let flags = place.trace_flags() & TraceFlags::SAMPLED;
    let traceparent = format!("00-{}-{}-{:02x}", place.trace_id(), place.span_id(), flags.to_u8());
    let tracestate = Some(place.trace_state().header()).filter(|state| !state.is_empty());
    Some(TraceContext { traceparent, tracestate })
}

/// The place in a trace that headers name; `None` if the `traceparent` is malformed.
pub(crate) fn read(headers: &TraceContext) -> Option<SpanContext> {
    let (trace_id, span_id, flags) = parts(headers.traceparent.trim())?;
    let state = headers.tracestate.as_deref().unwrap_or_default().parse::<TraceState>();
    let state = state.unwrap_or_else(|error| {
        tracing::debug!(%error, "ignored: this is no `tracestate`");
        TraceState::default()
    });
    let flags = TraceFlags::new(flags) & TraceFlags::SAMPLED;
    let place = SpanContext::new(TraceId::from(trace_id), SpanId::from(span_id), flags, true, state);
    place.is_valid().then_some(place)
}

/// Trace, span and flags of a `traceparent`. One of a later version may go on after them.
fn parts(text: &str) -> Option<(u128, u64, u8)> {
    let (known, rest) = text.split_at_checked(SHORTEST)?;
    let fields: Vec<&str> = known.split('-').collect();
    let [version, trace_id, span_id, flags] = fields[..] else { return None };
    let lengths = [version, trace_id, span_id, flags].map(str::len);
    let is_hex = |digit: u8| matches!(digit, b'0'..=b'9' | b'a'..=b'f' | b'-');
    if lengths != [2, 32, 16, 2] || !known.bytes().all(is_hex) || version == "ff" {
        return None;
    }
    if !rest.is_empty() && (version == "00" || !rest.starts_with('-')) {
        return None;
    }
    let trace_id = u128::from_str_radix(trace_id, 16).ok()?;
    let span_id = u64::from_str_radix(span_id, 16).ok()?;
    Some((trace_id, span_id, u8::from_str_radix(flags, 16).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    fn headers(traceparent: &str, tracestate: Option<&str>) -> TraceContext {
        TraceContext { traceparent: traceparent.to_owned(), tracestate: tracestate.map(str::to_owned) }
    }

    #[test]
    fn what_is_read_is_written_again() {
        for (traceparent, tracestate) in [
            (PARENT, None),
            (PARENT, Some("rojo=00f067aa0ba902b7,congo=t61rcWkgMzE")),
            ("00-0000000000000000000000000000000a-000000000000000b-00", None),
        ] {
            let headers = headers(traceparent, tracestate);

            assert_eq!(read(&headers).as_ref().and_then(written), Some(headers));
        }
    }

    #[test]
    fn sampled_is_the_only_flag_that_is_carried() {
        let flagged = |flags: &str| headers(&PARENT.replace("-01", flags), None);

        assert!(read(&flagged("-03")).is_some_and(|place| place.trace_flags() == TraceFlags::SAMPLED));
        assert!(read(&flagged("-02")).is_some_and(|place| place.trace_flags() == TraceFlags::NOT_SAMPLED));
    }

    #[test]
    fn malformed_traceparent_is_none() {
        let more = format!("{PARENT}-more");
        for malformed in [
            "",
            "-",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0",
            "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            "00-+bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e47360-0f067aa0ba902b7-01",
            "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-ü1",
            more.as_str(),
        ] {
            assert_eq!(read(&headers(malformed, None)), None, "{malformed}");
        }
    }

    #[test]
    fn later_version_may_go_on() {
        let later = PARENT.replacen("00", "cc", 1);

        for text in [later.clone(), format!("{later}-what-will-be"), format!(" {later} ")] {
            assert!(read(&headers(&text, None)).is_some(), "{text}");
        }
        assert_eq!(read(&headers(&format!("{later}.what"), None)), None);
    }

    #[test]
    fn malformed_tracestate_costs_only_itself() {
        let place = read(&headers(PARENT, Some("no list"))).expect("the parent is fine");

        assert_eq!(place.trace_state(), &TraceState::NONE);
    }

    #[test]
    fn invalid_place_is_not_written() {
        assert_eq!(written(&SpanContext::NONE), None);
    }
}
