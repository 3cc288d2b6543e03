//! What an answer of the server means for the event.

use std::error::Error;

use async_nats::jetstream;
use async_nats::jetstream::context::{PublishError, PublishErrorKind};
use pillarbox::SinkError;

/// A limit on messages of one subject. The server tells the limits of a stream apart by their text only.
const PER_SUBJECT: &str = "per subject";
const STORE_FAILED: u64 = 10_077;
const MESSAGE_TOO_LARGE: u64 = 10_054;
const HEADERS_TOO_LARGE: u64 = 10_097;
const SEALED: u64 = 10_109;
const NOT_ENABLED_FOR_ACCOUNT: u64 = 10_039;

/// What the server's refusal to store an event says.
pub(crate) fn refusal(subject: &str, error: &jetstream::Error) -> SinkError {
    let text = format!("the stream of `{subject}` did not take the event: {error}");
    match (error.error_code().0, error.code()) {
        (MESSAGE_TOO_LARGE, _) => {
            SinkError::rejected(format!("{text}; it is over the stream's limit, `max_msg_size`")).for_good()
        }
        (HEADERS_TOO_LARGE, _) => {
            SinkError::rejected(format!("{text}; its headers are over the limit of 64 KiB")).for_good()
        }
        (STORE_FAILED, _) if error.to_string().contains(PER_SUBJECT) => SinkError::rejected(text),
        // A stream that is full, sealed or without a leader says nothing about the event.
        (STORE_FAILED | SEALED | NOT_ENABLED_FOR_ACCOUNT, _) | (_, 429 | 500..) => {
            SinkError::unavailable(text)
        }
        _ => SinkError::rejected(text),
    }
}

/// What it means that no acknowledgement came, for reasons other than that nobody takes the subject.
pub(crate) fn silence(subject: &str, error: &PublishError, complaint: Option<&str>) -> SinkError {
    if let Some(refused) = error.source().and_then(|source| source.downcast_ref::<jetstream::Error>()) {
        return refusal(subject, refused);
    }
    match (error.kind(), complaint) {
        // The server says so once, on the side, and then nothing.
        (PublishErrorKind::TimedOut, Some(complaint)) if is_forbidden(subject, complaint) => {
            SinkError::unavailable(format!("the user must not publish to `{subject}`: {complaint}"))
        }
        (PublishErrorKind::TimedOut, complaint) => {
            let complaint = complaint.map(|text| format!("; the server said: {text}")).unwrap_or_default();
            SinkError::unknown(format!(
                "the stream of `{subject}` did not acknowledge the event in time{complaint}"
            ))
        }
        (PublishErrorKind::BrokenPipe, _) => {
            SinkError::unknown("the connection to NATS was lost before the acknowledgement came")
        }
        _ => SinkError::unknown(format!(
            "what came back from `{subject}` is no acknowledgement: {error}; does something other than JetStream \
             answer there?"
        )),
    }
}

/// Whether the server complained that we must not publish to this subject.
fn is_forbidden(subject: &str, complaint: &str) -> bool {
    let complaint = complaint.to_ascii_lowercase();
    complaint.contains("permissions violation for publish")
        && complaint.contains(&format!("\"{}\"", subject.to_ascii_lowercase()))
}

/// An event that was not handed to the connection.
pub(crate) fn not_sent(error: &PublishError) -> SinkError {
    SinkError::unavailable(match error.kind() {
        PublishErrorKind::TimedOut => {
            "NATS takes nothing more in: what was sent before is still on the way".to_owned()
        }
        _ => format!("the connection to NATS was lost before the event was sent: {error}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(code: u32, err_code: u32, description: &str) -> jetstream::Error {
        let json = format!(r#"{{"code":{code},"err_code":{err_code},"description":"{description}"}}"#);
        serde_json::from_str(&json).unwrap()
    }

    /// T5: a stream that is full says nothing about the event; an event that is too large does.
    #[test]
    fn refusals_are_told_apart() {
        for (code, err_code, text) in [
            (503, 10_077, "maximum messages exceeded"),
            (503, 10_077, "maximum bytes exceeded"),
            (503, 10_077, "resource limits exceeded for account"),
            (503, 10_008, "JetStream system temporarily unavailable"),
            (503, 10_039, "jetstream not enabled for account"),
            (400, 10_109, "invalid operation on sealed stream"),
            (429, 10_167, "too many requests"),
            (500, 10_118, "stream is offline"),
        ] {
            let verdict = refusal("orders", &error(code, err_code, text));
            assert!(verdict.is_unavailable(), "{verdict:?}");
            assert!(verdict.to_string().contains(text), "{verdict}");
        }
        for (code, err_code, text, is_final) in [
            (400, 10_054, "message size exceeds maximum allowed", true),
            (400, 10_097, "header size exceeds maximum allowed of 64k", true),
            (503, 10_077, "maximum messages per subject exceeded", false),
            (400, 10_060, "expected stream does not match", false),
        ] {
            let verdict = refusal("orders", &error(code, err_code, text));
            assert!(verdict.is_rejected(), "{verdict:?}");
            assert_eq!(verdict.is_final(), is_final, "{verdict}");
        }
    }

    /// Guarantee 3: without an answer nothing is known; that we must not publish there is an answer.
    #[test]
    fn silence_is_unknown_unless_the_server_complained() {
        let timed_out = PublishError::new(PublishErrorKind::TimedOut);
        let complaint = "Permissions Violation for Publish to \"shop.orders\"";

        assert!(silence("shop.orders", &timed_out, None).is_unknown());
        assert!(silence("shop.returns", &timed_out, Some(complaint)).is_unknown());
        assert!(silence("shop.Orders", &timed_out, Some(complaint)).is_unavailable());
        assert!(
            silence("shop.orders", &PublishError::new(PublishErrorKind::BrokenPipe), Some(complaint))
                .is_unknown()
        );
    }
}
