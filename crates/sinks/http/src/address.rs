//! Where an event goes: one receiver, and a path that the event may fill.

use std::borrow::Cow;
use std::net::IpAddr;

use pillarbox::{Event, SinkError, Template};
use reqwest::Url;

/// Longer ones are refused by many receivers, and by all with a text that helps nobody.
const MAX_URL: usize = 8_192;

/// A URL that no sink can be made of. It names the receiver at most, for the rest of a URL may be a secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadUrl {
    /// It does not begin with `http://` or `https://` and the name of a host.
    #[error("the URL of a receiver begins with `https://` or `http://` and the name of a host")]
    NotHttp,
    /// Events would choose where the request goes.
    #[error("values of events may fill the path and the query of a URL, never its scheme, host or port")]
    PlaceInHost,
    /// It has a user or a password in it.
    #[error("the URL of `{0}` has a user or a password in it; give these as the header `authorization`")]
    Credentials(String),
    /// It has a fragment, which is never sent.
    #[error("the URL of `{0}` has a `#`, and what follows it is never sent")]
    Fragment(String),
    /// It has a segment `.` or `..`, white space, or a control character, which would be silently taken away.
    #[error("the URL of `{0}` has white space, a control character, or a segment `.` or `..` in it")]
    Unclean(String),
}

/// A URL that an event may fill in part.
#[derive(Clone, Debug)]
pub(crate) struct Address {
    /// Scheme, host and port: the part that is the same for all events, and that may be shown.
    origin: String,
    host: String,
    template: Template,
}

impl Address {
    pub(crate) fn new(template: Template) -> Result<Self, BadUrl> {
        let text = template.to_string();
        let (scheme, rest) = text.split_once("://").ok_or(BadUrl::NotHttp)?;
        if !["http", "https"].contains(&scheme) {
            return Err(if scheme.contains('{') { BadUrl::PlaceInHost } else { BadUrl::NotHttp });
        }
        let (authority, path) = rest.split_at(rest.find(['/', '?', '#', '\\']).unwrap_or(rest.len()));
        if authority.contains(['{', '}']) {
            return Err(BadUrl::PlaceInHost);
        }
        let base = Url::parse(&format!("{scheme}://{authority}")).map_err(|_| BadUrl::NotHttp)?;
        let host = base.host_str().ok_or(BadUrl::NotHttp)?.to_owned();
        if authority.contains('@') {
            return Err(BadUrl::Credentials(host));
        }
        if path.contains('#') {
            return Err(BadUrl::Fragment(host));
        }
        let is_unclean = |character: char| character.is_whitespace() || character.is_control();
        if path.contains('\\') || text.contains(is_unclean) || has_dot_segment(path) {
            return Err(BadUrl::Unclean(host));
        }
        Ok(Self { origin: base.origin().ascii_serialization(), host, template })
    }

    /// Scheme, host and port.
    pub(crate) fn origin(&self) -> &str {
        &self.origin
    }

    /// The host, if it is an address and no name.
    pub(crate) fn literal(&self) -> Option<IpAddr> {
        self.host.trim_matches(['[', ']']).parse().ok()
    }

    /// Whether what is sent can be read on the way.
    pub(crate) fn is_plain(&self) -> bool {
        self.origin.starts_with("http://")
    }

    /// Scheme, host and port, as a URL.
    pub(crate) fn root(&self) -> Option<Url> {
        Url::parse(&self.origin).ok()
    }

    /// The URL for an event: the route's, if that has one, otherwise the sink's.
    pub(crate) fn of(&self, event: &Event, route: Option<&Template>) -> Result<Url, SinkError> {
        let template = route.unwrap_or(&self.template);
        let mut filled = template.fill_with(event, encoded).map_err(|unfilled| {
            refusal(format!(
                "the URL cannot be filled: the event has no {}; `{{{}|…}}` gives a value for those that have none",
                unfilled.lacks, unfilled.place
            ))
        })?;
        if let Some(route) = route {
            if filled.starts_with('/') {
                filled.insert_str(0, &self.origin);
            } else {
                self.check_route(route)?;
            }
        }
        self.checked(&filled)
    }

    /// A route may name the same receiver in full. Another one would get headers and signatures that are not for it.
    fn check_route(&self, route: &Template) -> Result<(), SinkError> {
        let address =
            Self::new(route.clone()).map_err(|bad| refusal(format!("the address of the route: {bad}")))?;
        if address.origin == self.origin {
            return Ok(());
        }
        Err(refusal(format!(
            "the route leads to `{}`, and this sink to `{}`; give the route a path, or a sink of its own",
            address.origin, self.origin
        )))
    }

    fn checked(&self, filled: &str) -> Result<Url, SinkError> {
        let path = filled.strip_prefix(&self.origin).unwrap_or(filled);
        if has_dot_segment(path) {
            return Err(refusal("a value of the event makes `.` or `..` a segment of the URL".to_owned()));
        }
        if filled.len() > MAX_URL {
            let length = filled.len();
            return Err(refusal(format!("the URL comes to {length} bytes, over the limit of {MAX_URL}")));
        }
        let url = Url::parse(filled).ok().filter(|url| url.origin().ascii_serialization() == self.origin);
        url.ok_or_else(|| refusal("the values of the event make no URL of it".to_owned()))
    }
}

fn refusal(text: String) -> SinkError {
    SinkError::rejected(text).for_good()
}

/// Whether a path has a segment that leads upwards, or nowhere; receivers and clients take `%2e` for a point.
fn has_dot_segment(path: &str) -> bool {
    let path = path.split(['?', '#']).next().unwrap_or_default();
    path.split('/')
        .any(|segment| matches!(segment.to_ascii_lowercase().replace("%2e", ".").as_str(), "." | ".."))
}

/// The value with everything encoded that could mean something in a URL.
fn encoded(value: &str) -> Cow<'_, str> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    if value.bytes().all(is_plain) {
        return Cow::Borrowed(value);
    }
    percent_encoded(value, is_plain).into()
}

/// The text with all bytes but the plain ones as `%` and two digits.
pub(crate) fn percent_encoded(text: &str, is_plain: impl Fn(u8) -> bool) -> String {
    text.bytes().fold(String::with_capacity(text.len() + 16), |mut encoded, byte| {
        match is_plain(byte) {
            true => encoded.push(char::from(byte)),
            false => encoded.push_str(&format!("%{byte:02X}")),
        }
        encoded
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn address(url: &str) -> Result<Address, BadUrl> {
        Address::new(url.parse().unwrap())
    }

    fn order(key: &str) -> Event {
        Event::builder("OrderPlaced").id("01").key(key).json_text("{}").build().unwrap()
    }

    fn url(template: &str, key: &str) -> String {
        address(template).unwrap().of(&order(key), None).unwrap().to_string()
    }

    fn error(template: &str, route: Option<&str>, key: &str) -> String {
        let route = route.map(|route| route.parse().unwrap());
        let error = address(template).unwrap().of(&order(key), route.as_ref()).unwrap_err();
        assert!(error.is_rejected() && error.is_final());
        error.to_string()
    }

    /// K2: events fill the path and the query, each value encoded.
    #[test]
    fn values_are_encoded() {
        assert_eq!(
            url("https://hooks.example/{event_type}?key={key}", "a b/c?d&e=%#ü"),
            "https://hooks.example/OrderPlaced?key=a%20b%2Fc%3Fd%26e%3D%25%23%C3%BC"
        );
        assert_eq!(url("http://hooks.example:8080", "x"), "http://hooks.example:8080/");
    }

    /// K2: no event chooses where a request goes.
    #[test]
    fn place_in_the_host_is_refused() {
        for bad in [
            "https://{tenant_id}.example/",
            "https://{key}",
            "https://hooks.example:{key}/",
            "{header.scheme}://hooks.example/",
            "https://hooks.example{key}/",
            "https://user{key}@hooks.example/",
        ] {
            assert_eq!(address(bad).unwrap_err(), BadUrl::PlaceInHost, "{bad}");
        }
    }

    /// K2: a URL that is none is refused, and its secrets are not shown.
    #[test]
    fn bad_url_is_refused() {
        let host = || "hooks.example".to_owned();
        for (bad, error) in [
            ("hooks.example/orders", BadUrl::NotHttp),
            ("ftp://hooks.example/", BadUrl::NotHttp),
            ("https://", BadUrl::NotHttp),
            ("https://ada:s3cret@hooks.example/", BadUrl::Credentials(host())),
            ("https://hooks.example/#s3cret", BadUrl::Fragment(host())),
            ("https://hooks.example/a/../s3cret", BadUrl::Unclean(host())),
            ("https://hooks.example/a/%2E%2e/s3cret", BadUrl::Unclean(host())),
            ("https://hooks.example/s3cret\n", BadUrl::Unclean(host())),
            ("https://hooks.example\\s3cret", BadUrl::Unclean(host())),
        ] {
            assert_eq!(address(bad).unwrap_err(), error, "{bad}");
            assert!(!error.to_string().contains("s3cret"), "{error}");
        }
    }

    /// K2: no value climbs out of its segment.
    #[test]
    fn value_that_leads_upwards_is_refused() {
        for key in [".", ".."] {
            let error = error("https://hooks.example/{key}/orders", None, key);
            assert_eq!(error, "a value of the event makes `.` or `..` a segment of the URL");
        }
        assert!(error("https://hooks.example/.{key}", None, ".").contains("`..`"));
        assert_eq!(url("https://hooks.example/{key}/orders", "..."), "https://hooks.example/.../orders");
    }

    /// K1: a route gives a path, or the same receiver in full; never another receiver.
    #[test]
    fn route_stays_with_its_receiver() {
        let to = |route: &str| {
            let route = route.parse().unwrap();
            address("https://hooks.example/orders").unwrap().of(&order("a"), Some(&route))
        };

        assert_eq!(to("/other/{key}").unwrap().as_str(), "https://hooks.example/other/a");
        assert_eq!(to("//evil.example/{key}").unwrap().as_str(), "https://hooks.example//evil.example/a");
        assert_eq!(to("https://hooks.example:443/b").unwrap().as_str(), "https://hooks.example/b");
        let elsewhere = "the route leads to `https://evil.example`, and this sink to `https://hooks.example`; give the \
                         route a path, or a sink of its own";
        assert_eq!(to("https://evil.example/{key}").unwrap_err().to_string(), elsewhere);
        assert!(to("orders").unwrap_err().to_string().contains("begins with `https://`"));
    }

    /// K1: what an event lacks is named, and the URL is not.
    #[test]
    fn missing_value_is_named() {
        let error = error("https://hooks.example/s3cret/{tenant_id}", None, "a");

        assert_eq!(
            error,
            "the URL cannot be filled: the event has no tenant; `{tenant_id|…}` gives a value for those that have none"
        );
    }

    /// K2: a URL that grows too long is refused with the limit.
    #[test]
    fn long_url_is_refused() {
        let event = Event::builder("Ping").header("long", "ä".repeat(2_000)).json_text("{}").build().unwrap();

        let error = address("https://hooks.example/{header.long}").unwrap().of(&event, None).unwrap_err();

        assert!(error.to_string().ends_with("over the limit of 8192"), "{error}");
    }

    proptest! {
        /// K2: whatever a value is, the request goes to the receiver, and the value stays in its segment.
        #[test]
        fn values_stay_in_their_segment(key in "\\PC{1,40}") {
            let Ok(event) = Event::builder("Ping").key(&key).json_text("{}").build() else { return Ok(()) };
            let address = address("https://hooks.example/a/{key}/b").unwrap();

            match address.of(&event, None) {
                Ok(url) => {
                    prop_assert_eq!(url.host_str(), Some("hooks.example"));
                    let segments: Vec<&str> = url.path_segments().unwrap().collect();
                    prop_assert_eq!((segments.len(), segments[0], segments[2]), (3, "a", "b"));
                    prop_assert_eq!(url.query(), None);
                }
                Err(_) => prop_assert!(key == "." || key == ".."),
            }
        }
    }
}
