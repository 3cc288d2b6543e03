//! What an answer of the server means for the event.

use pillarbox::SinkError;
use redis::{ErrorKind, RedisError};

/// What the server says when it can take nothing now, and what helps.
const DOWN: [(&str, &str); 15] = [
    ("OOM", "it has no memory left; give it more (`maxmemory`), or trim the stream"),
    ("READONLY", "it is a replica; connect to the primary"),
    ("LOADING", "it is still reading its data"),
    ("MASTERDOWN", "it is a replica without a primary"),
    ("BUSY", "a script keeps it busy"),
    ("MISCONF", "it cannot write to its disk"),
    ("NOREPLICAS", "it has too few replicas (`min-replicas-to-write`)"),
    ("NOAUTH", "it asks for a password"),
    ("WRONGPASS", "it does not accept user and password"),
    ("NOPERM", "the user lacks a right: `XADD` on the stream, and `WAIT` if replicas are waited for"),
    ("CLUSTERDOWN", "its cluster is down"),
    ("MOVED", "the stream is on another node of its cluster; a cluster is not supported"),
    ("ASK", "the stream is on another node of its cluster; a cluster is not supported"),
    ("TRYAGAIN", "the stream moves between nodes of its cluster; a cluster is not supported"),
    ("UNBLOCKED", "it became a replica"),
];

/// What the answer to a command says, if it is not success.
pub(crate) fn of(stream: &str, error: &RedisError) -> SinkError {
    let told = cause(error);
    let Some(code) = server_code(error) else {
        // Whether the command was carried out before the answer was lost, nobody knows.
        return SinkError::unknown(format!(
            "the answer of Redis about the stream `{stream}` was lost: {told}"
        ));
    };
    if DOWN.iter().any(|(down, _)| *down == code) {
        return SinkError::unavailable(format!("Redis takes nothing into the stream `{stream}` now: {told}"));
    }
    match code {
        "WRONGTYPE" => SinkError::rejected(format!(
            "the key `{stream}` holds something other than a stream; delete it, or give the stream another name"
        )),
        _ => SinkError::rejected(format!("Redis did not take the event into the stream `{stream}`: {told}")),
    }
}

/// Whether the connection is of no use any more.
pub(crate) fn is_doubtful(error: &RedisError) -> bool {
    // One that was made before a failover, a change of passwords or a restart is better made anew.
    server_code(error).is_none_or(|code| ["READONLY", "NOAUTH", "UNBLOCKED"].contains(&code))
}

/// The first word of what the server said, if it is the server who complains.
fn server_code(error: &RedisError) -> Option<&str> {
    matches!(error.kind(), ErrorKind::Server(_) | ErrorKind::Extension).then(|| error.code()).flatten()
}

/// An error in words, with what helps.
pub(crate) fn cause(error: &RedisError) -> String {
    let code = error.code().unwrap_or_default();
    match DOWN.iter().find(|(down, _)| *down == code) {
        Some((code, remedy)) => format!("{remedy} (`{code}`)"),
        None if error.kind() == ErrorKind::AuthenticationFailed => {
            format!("it does not accept user and password ({error})")
        }
        None if error.is_timeout() => "no answer in time".to_owned(),
        None => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use redis::make_extension_error;

    fn said(code: &str) -> RedisError {
        make_extension_error(code.to_owned(), Some("in its words".to_owned()))
    }

    /// T5: a server that takes nothing now says nothing about the event.
    #[test]
    fn server_that_takes_nothing_is_unavailable() {
        for (code, remedy) in DOWN {
            let verdict = of("orders", &said(code));

            assert!(verdict.is_unavailable(), "{verdict:?}");
            assert!(verdict.to_string().contains(remedy), "{verdict}");
        }
    }

    #[test]
    fn key_of_another_kind_is_rejected() {
        let verdict = of("orders", &said("WRONGTYPE"));

        assert!(verdict.is_rejected() && !verdict.is_final(), "{verdict:?}");
        assert!(
            verdict.to_string().starts_with("the key `orders` holds something other than a stream"),
            "{verdict}"
        );
    }

    #[test]
    fn other_complaint_is_rejected_in_the_words_of_the_server() {
        let verdict = of("orders", &said("ERR"));

        assert!(verdict.is_rejected(), "{verdict:?}");
        assert!(verdict.to_string().contains("in its words"), "{verdict}");
    }

    /// Guarantee 3: without an answer nothing is known.
    #[test]
    fn lost_answer_is_unknown() {
        let error = RedisError::from(std::io::Error::from(std::io::ErrorKind::BrokenPipe));

        assert!(of("orders", &error).is_unknown());
        assert!(is_doubtful(&error) && !is_doubtful(&said("OOM")));
    }
}
