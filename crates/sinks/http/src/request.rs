//! An event as a request.

use std::time::{SystemTime, UNIX_EPOCH};

use pillarbox::{Event, SinkError, Template};
use pillarbox_message::{EVENT_ID, Message, Messages};
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, USER_AGENT};
use reqwest::{Method, Request, Url};

use crate::HttpOptions;
use crate::address::{Address, percent_encoded};
use crate::secret::signatures;

const AGENT: HeaderValue = HeaderValue::from_static(concat!("pillarbox/", env!("CARGO_PKG_VERSION")));
const WEBHOOK_ID: HeaderName = HeaderName::from_static("webhook-id");
const WEBHOOK_TIMESTAMP: HeaderName = HeaderName::from_static("webhook-timestamp");
const WEBHOOK_SIGNATURE: HeaderName = HeaderName::from_static("webhook-signature");

/// Headers that say how the request itself travels, or that the sink sets.
const OURS: [&str; 13] = [
    "connection",
    "content-length",
    "content-type",
    "expect",
    "host",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    EVENT_ID,
    "http2-settings",
];
/// Headers that would speak for this program, or pass on the credentials of somebody else.
const KEPT_BACK: [&str; 4] = ["authorization", "cookie", "proxy-authorization", "user-agent"];

/// Whether the sink or the transport sets this header.
pub(crate) fn is_ours(name: &HeaderName) -> bool {
    let name = name.as_str();
    OURS.contains(&name) || name.starts_with("ce-") || name.starts_with("webhook-")
}

/// A request that is complete but for its signature, which has the time of sending in it.
#[derive(Debug)]
pub(crate) struct Draft {
    url: Url,
    headers: HeaderMap,
    body: Vec<u8>,
    event_id: String,
}

impl Draft {
    /// The request for an event, or why no receiver could ever get it.
    pub(crate) fn of(
        event: &Event,
        route: Option<&Template>,
        (address, messages, options): (&Address, &Messages, &HttpOptions),
    ) -> Result<Self, SinkError> {
        let url = address.of(event, route)?;
        let message = messages.of(event).map_err(|error| refusal(error.to_string()))?;
        if message.body.len() > options.max_body {
            return Err(refusal(format!(
                "the event comes to a body of {} bytes, over the limit of {} (`max_body`)",
                message.body.len(),
                options.max_body
            )));
        }
        if !options.secrets.is_empty() && message.event_id.contains('.') {
            return Err(refusal(format!(
                "the event id `{}` has a `.`, with which a signature would be ambiguous",
                message.event_id
            )));
        }
        let headers = headers(&message, &options.headers)?;
        let event_id = message.event_id.to_owned();
        Ok(Self { url, headers, body: message.body.into_owned(), event_id })
    }

    /// Where it goes.
    pub(crate) fn url(&self) -> &Url {
        &self.url
    }

    /// How large the body is.
    pub(crate) fn size(&self) -> usize {
        self.body.len()
    }

    /// The request, signed now.
    pub(crate) fn signed(mut self, options: &HttpOptions) -> Result<Request, SinkError> {
        if !options.secrets.is_empty() {
            let timestamp = seconds((options.clock)());
            let signatures = signatures(&options.secrets, &self.event_id, timestamp, &self.body);
            self.headers.insert(WEBHOOK_ID, value("id", &self.event_id)?);
            self.headers.insert(WEBHOOK_TIMESTAMP, HeaderValue::from(timestamp));
            self.headers.insert(WEBHOOK_SIGNATURE, value("signature", &signatures)?);
        }
        let mut request = Request::new(Method::POST, self.url);
        *request.headers_mut() = self.headers;
        *request.body_mut() = Some(self.body.into());
        Ok(request)
    }
}

fn seconds(now: SystemTime) -> u64 {
    now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// The event's headers first: what we set ourselves replaces them.
fn headers(message: &Message<'_>, fixed: &HeaderMap) -> Result<HeaderMap, SinkError> {
    let mut headers = HeaderMap::with_capacity(32);
    for (name, text) in &message.headers {
        let header: HeaderName = name.parse().map_err(|_| {
            refusal(format!("the event has the header `{}`, which is no name for HTTP", name.escape_debug()))
        })?;
        if !is_ours(&header) && !KEPT_BACK.contains(&header.as_str()) && !fixed.contains_key(&header) {
            headers.append(header, value(&format!("header `{name}`"), text)?);
        }
    }
    headers.insert(CONTENT_TYPE, value("header `content-type`", message.content_type)?);
    headers.insert(HeaderName::from_static(EVENT_ID), value("id", message.event_id)?);
    for (name, text) in &message.attributes {
        // The binding has the content type in its usual place only.
        if *name != "datacontenttype" {
            let header = HeaderName::from_bytes(format!("ce-{name}").as_bytes());
            let header =
                header.map_err(|_| refusal(format!("the attribute `{name}` is no name for HTTP")))?;
            headers.insert(header, value(&format!("attribute `{name}`"), &encoded(text))?);
        }
    }
    headers.insert(USER_AGENT, AGENT);
    for name in fixed.keys() {
        headers.remove(name);
    }
    headers.extend(fixed.iter().map(|(name, value)| (name.clone(), value.clone())));
    Ok(headers)
}

/// The value of an attribute as the binding for HTTP has it.
fn encoded(text: &str) -> String {
    percent_encoded(text, |byte| byte.is_ascii_graphic() && byte != b'"' && byte != b'%')
}

/// A value that arrives as it is: what is not ASCII, each receiver would read in its own way.
fn value(what: &str, text: &str) -> Result<HeaderValue, SinkError> {
    HeaderValue::from_str(text).ok().filter(|_| text.is_ascii()).ok_or_else(|| {
        refusal(format!(
            "the {what} of the event has characters that no header of HTTP can carry; it can carry those of ASCII"
        ))
    })
}

fn refusal(text: String) -> SinkError {
    SinkError::rejected(text).for_good()
}

#[cfg(test)]
mod tests {
    use super::*;
    use pillarbox::EventBuilder;

    const URL: &str = "https://hooks.example/orders";

    fn order_placed() -> EventBuilder {
        Event::builder("OrderPlaced").id("01").aggregate("Order", "order-17").json_text("{}")
    }

    fn drafted(event: EventBuilder, options: &HttpOptions) -> Result<Draft, SinkError> {
        let address = Address::new(URL.parse().unwrap()).unwrap();
        let messages = Messages::from_source("/shop").unwrap();
        Draft::of(&event.build().unwrap(), None, (&address, &messages, options))
    }

    fn headers(event: EventBuilder, options: &HttpOptions) -> HeaderMap {
        drafted(event, options).unwrap().headers
    }

    fn error(event: EventBuilder, options: &HttpOptions) -> String {
        let error = drafted(event, options).unwrap_err();
        assert!(error.is_rejected() && error.is_final(), "{error:?}");
        error.to_string()
    }

    /// K2: attributes are encoded as the binding says; the content type is no attribute there.
    #[test]
    fn attributes_are_encoded_as_the_binding_says() {
        let event = order_placed().tenant("Ärger \"100%\"");

        let headers = headers(event, &HttpOptions::new());

        assert_eq!(headers["ce-tenantid"], "%C3%84rger%20%22100%25%22");
        assert_eq!(
            (&headers["ce-specversion"], &headers["ce-id"]),
            (&"1.0".parse().unwrap(), &"01".parse().unwrap())
        );
        assert_eq!(headers["content-type"], "application/json");
        assert!(!headers.contains_key("ce-datacontenttype"));
    }

    /// K2: what HTTP cannot carry is refused by name; nothing is cut, and nothing broken in two.
    #[test]
    fn what_http_cannot_carry_is_refused() {
        let plain = HttpOptions::new();

        assert!(
            error(order_placed().header("a b", "x"), &plain).contains("the header `a b`, which is no name")
        );
        for value in ["München", "two\r\nlines", "bell\u{7}"] {
            let error = error(order_placed().header("city", value), &plain);
            assert!(error.starts_with("the header `city` of the event has characters"), "{error}");
        }
        assert!(error(order_placed().id("bestellung-ü"), &plain).starts_with("the id of the event"));
        let told = order_placed().header("content-type", "application/json;\u{7}");
        assert!(error(told, &plain).starts_with("the header `content-type`"));
    }

    /// L6: no header of an event changes how the request travels, or speaks for this program.
    #[test]
    fn events_do_not_speak_for_the_program() {
        let fixed = HttpOptions::new().header("X-Tenant", "ours").unwrap();
        let names = ["Host", "Transfer-Encoding", "webhook-signature", "Authorization", "cookie", "x-tenant"];
        let event = names.into_iter().fold(order_placed(), |event, name| event.header(name, "theirs"));

        let headers = headers(event.header("region", "eu"), &fixed);

        assert!(!headers.values().any(|value| value == "theirs"), "{headers:?}");
        assert_eq!(
            (&headers["x-tenant"], &headers["region"]),
            (&"ours".parse().unwrap(), &"eu".parse().unwrap())
        );
        assert_eq!(headers["user-agent"], AGENT);
    }

    /// V2: a body over the limit is refused with the limit.
    #[test]
    fn large_body_is_refused_with_the_limit() {
        let error = error(order_placed().json_text(r#"{"total": 4200}"#), &HttpOptions::new().max_body(14));

        assert_eq!(error, "the event comes to a body of 15 bytes, over the limit of 14 (`max_body`)");
    }

    /// K2: with a point in the id a signature could be read in two ways.
    #[test]
    fn ambiguous_id_is_not_signed() {
        let secret = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD".parse().unwrap();

        assert!(drafted(order_placed().id("order.17"), &HttpOptions::new()).is_ok());
        let error = error(order_placed().id("order.17"), &HttpOptions::new().sign_with(secret));
        assert!(error.starts_with("the event id `order.17` has a `.`"), "{error}");
    }
}
