//! Under which subject an event is published.

use std::borrow::Cow;

use pillarbox::{Event, SinkError, Template};

/// Well within the 4 KiB that the server takes for a line of its protocol; a longer one ends the connection.
const MAX_SUBJECT: usize = 1_024;

/// The subject of an event, or why it has none.
pub(crate) fn subject(template: &Template, event: &Event) -> Result<String, SinkError> {
    let subject = template.fill(event).map_err(|error| SinkError::rejected(error.to_string()).for_good())?;
    match fault(&subject) {
        Some(fault) => {
            let text = format!("`{}` is no subject to publish to: {fault}", shown(&subject));
            Err(SinkError::rejected(text).for_good())
        }
        None => Ok(subject),
    }
}

/// What is wrong with a subject.
fn fault(subject: &str) -> Option<String> {
    if subject.len() > MAX_SUBJECT {
        return Some(format!("it has {} bytes, and the limit is {MAX_SUBJECT}", subject.len()));
    }
    if subject.starts_with('$') {
        return Some("subjects that begin with `$` are orders to the server".to_owned());
    }
    if subject.contains(['*', '>']) {
        return Some("`*` and `>` are for those who subscribe".to_owned());
    }
    if subject.contains(|character: char| character.is_whitespace() || character.is_control()) {
        return Some("it has white space or control characters in it".to_owned());
    }
    if subject.split('.').any(str::is_empty) {
        return Some("there is nothing before, after or between its dots".to_owned());
    }
    None
}

/// A subject as it can stand in an error.
fn shown(subject: &str) -> String {
    subject.chars().take(200).flat_map(char::escape_debug).collect()
}

/// The subjects that a template can lead to, with wildcards in place of what comes from the event.
pub(crate) fn pattern(template: &Template, event: &Event) -> Option<String> {
    let filled = template.fill_with(event, |_| Cow::Borrowed("*")).ok()?;
    let tokens = filled.split('.').map(|token| if token.contains('*') { "*" } else { token });
    Some(tokens.collect::<Vec<_>>().join("."))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(tenant: &str) -> Event {
        Event::builder("OrderPlaced").tenant(tenant).json_text("{}").build().unwrap()
    }

    fn template() -> Template {
        "shop.{tenant_id}.{event_type}".parse().unwrap()
    }

    #[test]
    fn subject_is_filled_from_the_event() {
        assert_eq!(subject(&template(), &event("acme")).unwrap(), "shop.acme.OrderPlaced");
        assert_eq!(subject(&template(), &event("acme.eu")).unwrap(), "shop.acme.eu.OrderPlaced");
    }

    /// What an event carries can neither reach subscribers of others nor the server itself.
    #[test]
    fn value_that_does_not_fit_is_rejected_for_good() {
        for (tenant, why) in [
            ("*", "for those who subscribe"),
            ("a>", "for those who subscribe"),
            ("a b", "white space"),
            ("a\tb", "white space"),
            ("a\u{a0}b", "white space"),
            ("a\r\nPUB x 0", "white space"),
            ("a\u{7f}", "control characters"),
            (".a", "nothing before"),
            ("a..b", "nothing before"),
        ] {
            let error = subject(&template(), &event(tenant)).unwrap_err();

            assert!(error.is_rejected() && error.is_final(), "{tenant:?}: {error:?}");
            assert!(error.to_string().contains(why), "{error}");
            assert!(!error.to_string().contains('\n'), "{error:?}");
        }
        let order =
            subject(&"{tenant_id}".parse().unwrap(), &event("$JS.API.STREAM.DELETE.SHOP")).unwrap_err();
        assert!(order.to_string().contains("orders to the server"), "{order}");
    }

    #[test]
    fn long_subject_is_rejected_with_the_limit() {
        let template: Template = "x".repeat(MAX_SUBJECT + 1).parse().unwrap();

        let error = subject(&template, &event("acme")).unwrap_err();

        assert!(error.to_string().ends_with("it has 1025 bytes, and the limit is 1024"), "{error}");
    }

    #[test]
    fn pattern_has_wildcards_where_the_event_counts() {
        let of = |text: &str| pattern(&text.parse().unwrap(), &event("acme")).unwrap();

        assert_eq!(of("shop.{tenant_id}.{event_type}"), "shop.*.*");
        assert_eq!(of("shop.of-{tenant_id}.orders"), "shop.*.orders");
        assert_eq!(of("shop.orders"), "shop.orders");
    }
}
