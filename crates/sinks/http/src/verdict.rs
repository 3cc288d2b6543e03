//! What an answer means, or that there was none.

use std::error::Error;
use std::time::{Duration, SystemTime};

use pillarbox::SinkError;
use reqwest::header::{HeaderMap, HeaderValue, LOCATION, RETRY_AFTER};
use reqwest::{StatusCode, Url};

use crate::resolver::OnlyPrivate;

/// The longest time that a receiver may ask to be left alone.
const LONGEST_PAUSE: Duration = Duration::from_secs(3600);
/// Parts of a path that are shorter are words, such as `orders`.
const SECRET_SEGMENT: usize = 8;
/// How much of an answer is told.
const MAX_EXCERPT: usize = 300;

/// What a status says about an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The receiver has it.
    Accepted,
    /// The receiver does not want it so, and may another time.
    Refused,
    /// The receiver will never take it.
    RefusedForGood,
    /// The receiver takes nothing now.
    Down,
    /// Somebody between us and the receiver answered, who does not know what became of it.
    Unsure,
}

impl Verdict {
    pub(crate) fn of(status: StatusCode) -> Self {
        match status.as_u16() {
            200..=299 => Self::Accepted,
            // Gone; body, URL or headers too large.
            410 | 413 | 414 | 431 => Self::RefusedForGood,
            425 | 429 | 503 => Self::Down,
            // From 520 on, those of content delivery networks whose receiver fails them.
            408 | 502 | 504 | 520..=530 => Self::Unsure,
            _ => Self::Refused,
        }
    }
}

/// An answer other than success, as far as it is told.
#[derive(Debug)]
pub(crate) struct Refusal<'a> {
    pub(crate) origin: &'a str,
    pub(crate) url: &'a Url,
    pub(crate) status: StatusCode,
    pub(crate) headers: &'a HeaderMap,
    /// The size of the body that was sent.
    pub(crate) sent: usize,
    /// The beginning of the answer's body.
    pub(crate) body: &'a [u8],
    /// Headers whose values a receiver might repeat.
    pub(crate) secrets: &'a HeaderMap,
    pub(crate) now: SystemTime,
}

impl Refusal<'_> {
    /// The answer to the engine.
    pub(crate) fn into_error(self) -> SinkError {
        let text = self.text();
        let pause =
            |error: SinkError| match self.headers.get(RETRY_AFTER).and_then(|value| pause(value, self.now)) {
                Some(delay) => error.retry_after(delay),
                None => error,
            };
        match Verdict::of(self.status) {
            Verdict::Accepted | Verdict::Refused => SinkError::rejected(text),
            Verdict::RefusedForGood => SinkError::rejected(text).for_good(),
            Verdict::Down => pause(SinkError::unavailable(text)),
            Verdict::Unsure => pause(SinkError::unknown(text)),
        }
    }

    fn text(&self) -> String {
        let answered = format!("`{}` answered {}", self.origin, self.status);
        let excerpt = self.excerpt();
        let excerpt = if excerpt.is_empty() { excerpt } else { format!(": {excerpt}") };
        match self.status.as_u16() {
            300..=399 => {
                let place =
                    self.location().map_or_else(String::new, |host| format!(" and points to `{host}`"));
                format!("{answered}{place}; redirects are not followed: set the URL to where the receiver is")
            }
            413 => format!("{answered}: a body of {} bytes is over its limit{excerpt}", self.sent),
            414 => {
                format!("{answered}: a URL of {} bytes is over its limit{excerpt}", self.url.as_str().len())
            }
            431 => format!("{answered}: the headers of the event are over its limit{excerpt}"),
            _ => format!("{answered}{excerpt}"),
        }
    }

    /// The host that a redirect points to: the rest may be a secret.
    fn location(&self) -> Option<String> {
        let location = self.headers.get(LOCATION)?.to_str().ok()?;
        Some(self.url.join(location).ok()?.host_str()?.to_owned())
    }

    /// The beginning of what the receiver says, on one line, without what we sent it in confidence.
    fn excerpt(&self) -> String {
        let mut text = String::from_utf8_lossy(self.body).into_owned();
        for secret in self.confidential() {
            text = text.replace(&secret, "…");
        }
        let printable = text.replace(|character: char| character.is_control(), " ");
        let words: Vec<&str> = printable.split_whitespace().collect();
        words.join(" ").chars().take(MAX_EXCERPT).collect()
    }

    /// Values of headers, the credential in them alone too, and the URL behind its host, as a whole and in its parts.
    fn confidential(&self) -> Vec<String> {
        let values = self.secrets.values().filter_map(|value| value.to_str().ok());
        let values = values.flat_map(|value| [value, value.rsplit(' ').next().unwrap_or(value)]);
        let (path, query) = (self.url.path(), self.url.query().unwrap_or_default());
        let whole = values.chain([query, path]).map(str::to_owned);
        let raw = query.split('&').filter_map(|pair| pair.split_once('=')).map(|(_, value)| value.to_owned());
        let decoded = self.url.query_pairs().map(|(_, value)| value.into_owned());
        let segments = path.split('/').filter(|segment| segment.len() >= SECRET_SEGMENT).map(str::to_owned);
        // What is very short is no secret, and would be found everywhere.
        let mut texts: Vec<String> =
            whole.chain(raw).chain(decoded).chain(segments).filter(|text| text.len() >= 4).collect();
        // The longest first: what is left of it when a part is hidden would be told.
        texts.sort_by_key(|text| std::cmp::Reverse(text.len()));
        texts
    }
}

/// How long the receiver asks to be left alone: seconds, or a time.
fn pause(value: &HeaderValue, now: SystemTime) -> Option<Duration> {
    let text = value.to_str().ok()?.trim();
    let asked = match text.parse::<u64>() {
        Ok(seconds) => Duration::from_secs(seconds),
        Err(_) => httpdate::parse_http_date(text).ok()?.duration_since(now).unwrap_or_default(),
    };
    Some(asked.min(LONGEST_PAUSE))
}

/// What it means that a request got no answer: without a connection nothing was sent, with one it may have arrived.
pub(crate) fn unanswered(error: &reqwest::Error, origin: &str, timeout: Duration) -> SinkError {
    if error.is_builder() {
        return SinkError::rejected(format!("no request can be made of the event: {}", cause(error)))
            .for_good();
    }
    if error.is_connect() {
        return match only_private(error) {
            Some(refused) => SinkError::unavailable(refused.to_string()),
            None => SinkError::unavailable(format!("cannot connect to `{origin}`: {}", cause(error))),
        };
    }
    if error.is_timeout() {
        return SinkError::unknown(format!(
            "`{origin}` did not answer within {timeout:?}; it may have the event"
        ));
    }
    SinkError::unknown(format!(
        "the connection to `{origin}` was lost before the answer ({}); it may have the event",
        cause(error)
    ))
}

/// The private address that the resolver refused, if that is why.
pub(crate) fn only_private(error: &reqwest::Error) -> Option<&OnlyPrivate> {
    sources(error).find_map(|source| source.downcast_ref())
}

/// The innermost cause, which says what happened; the outer ones say that it did, and have the URL in them.
pub(crate) fn cause(error: &reqwest::Error) -> String {
    sources(error).last().map_or_else(|| "no cause is known".to_owned(), ToString::to_string)
}

/// The causes, from the outermost to the innermost.
pub(crate) fn sources(error: &reqwest::Error) -> impl Iterator<Item = &(dyn Error + 'static)> {
    std::iter::successors(error.source(), |&error| error.source())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SENT: &str = "https://hooks.example/orders?token=t0ken";

    /// 6 November 1994, 08:49:37.
    fn now() -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777)
    }

    fn answered(status: u16, headers: &[(&'static str, &str)], body: &str) -> SinkError {
        let headers = headers.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()));
        let secrets =
            HeaderMap::from_iter([("authorization".parse().unwrap(), "Bearer s3cret".parse().unwrap())]);
        let refusal = Refusal {
            origin: "https://hooks.example",
            url: &SENT.parse().unwrap(),
            status: StatusCode::from_u16(status).unwrap(),
            headers: &headers.collect(),
            sent: 4_200,
            body: body.as_bytes(),
            secrets: &secrets,
            now: now(),
        };
        refusal.into_error()
    }

    /// K2, T5: every status has its meaning, those that nobody knows too.
    #[test]
    fn every_status_has_a_meaning() {
        for status in 100..=999 {
            let verdict = Verdict::of(StatusCode::from_u16(status).unwrap());
            let expected = match status {
                200..=299 => Verdict::Accepted,
                410 | 413 | 414 | 431 => Verdict::RefusedForGood,
                425 | 429 | 503 => Verdict::Down,
                408 | 502 | 504 | 520..=530 => Verdict::Unsure,
                _ => Verdict::Refused,
            };
            assert_eq!(verdict, expected, "{status}");
        }
    }

    /// T5: one event that makes its receiver fail says nothing about the receiver; a receiver that is away says nothing
    /// about the event.
    #[test]
    fn verdict_is_told_to_the_engine() {
        for status in [302, 400, 401, 404, 422, 500] {
            let error = answered(status, &[], "");
            assert!(error.is_rejected() && !error.is_final(), "{status}: {error:?}");
        }
        for status in [410, 413, 414, 431] {
            assert!(answered(status, &[], "").is_final(), "{status}");
        }
        assert!(answered(503, &[], "").is_unavailable() && answered(429, &[], "").is_unavailable());
        assert!(answered(502, &[], "").is_unknown() && answered(504, &[], "").is_unknown());
    }

    /// T5: a receiver asks to be left alone in seconds or until a time, and for an hour at most.
    #[test]
    fn receiver_asks_to_be_left_alone() {
        for (value, seconds) in [
            ("120", Some(120)),
            (" 7 ", Some(7)),
            ("86400", Some(3_600)),
            ("Sun, 06 Nov 1994 08:51:07 GMT", Some(90)),
            ("Sun, 06 Nov 1994 08:40:00 GMT", Some(0)),
            ("Sun, 06 Nov 2044 08:40:00 GMT", Some(3_600)),
            ("soon", None),
            ("-1", None),
        ] {
            for status in [429, 503] {
                let asked = answered(status, &[("retry-after", value)], "").asked_delay();
                assert_eq!(asked, seconds.map(Duration::from_secs), "{status} {value}");
            }
        }
        assert_eq!(
            answered(500, &[("retry-after", "0")], "").asked_delay(),
            None,
            "attempts are not hurried through"
        );
    }

    /// K2: of a redirect the host is told.
    #[test]
    fn redirect_names_the_host_only() {
        let error =
            answered(302, &[("location", "https://ada:pw@login.example/x?s3cret")], "ignored").to_string();

        assert_eq!(
            error,
            "`https://hooks.example` answered 302 Found and points to `login.example`; redirects are not followed: set \
             the URL to where the receiver is"
        );
    }

    /// K2: an answer is told on one line, not at length, and without secrets.
    #[test]
    fn answer_is_told_in_part() {
        let body = format!(
            "no\r\n\u{1b}[31m order 17, Bearer s3cret, s3cret at /orders?token=t0ken {}",
            "x".repeat(400)
        );

        let error = answered(422, &[], &body).to_string();

        let start =
            "`https://hooks.example` answered 422 Unprocessable Entity: no [31m order 17, …, … at …?… xxx";
        assert!(error.starts_with(start), "{error}");
        assert_eq!(error.split_once(": no").unwrap().1.chars().count(), MAX_EXCERPT - 2);
        assert!(answered(413, &[], "").to_string().ends_with("a body of 4200 bytes is over its limit"));
    }

    /// K2: what the URL has in it is not told when the receiver repeats a part of it.
    #[test]
    fn part_of_the_url_is_not_told() {
        let error = answered(401, &[], "unknown token t0ken").to_string();

        assert!(error.ends_with("401 Unauthorized: unknown token …"), "{error}");
    }
}
