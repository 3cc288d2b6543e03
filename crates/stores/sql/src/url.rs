//! Options in the URL of a database.

use pillarbox::spelling::nearest;
use pillarbox::store::StoreError;

/// The options in the query of `url`, as names and values.
pub fn options(url: &str) -> impl Iterator<Item = (&str, &str)> {
    let url = url.split_once('#').map_or(url, |(before, _)| before);
    let query = url.split_once('?').map_or("", |(_, query)| query);
    query.split('&').filter(|pair| !pair.is_empty()).map(|pair| pair.split_once('=').unwrap_or((pair, "")))
}

/// Refuses a URL in which a `/` or `#` cuts what stands before the host in two: taken as it is, a piece of the password
/// would be the name of a database, which may be shown.
pub fn check_password(url: &str) -> Result<(), StoreError> {
    let Some((_, rest)) = url.split_once("://") else { return Ok(()) };
    let host_ends = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (host, behind) = rest.split_at(host_ends);
    // An option may have any value, and one that is no option has an answer of its own.
    let behind = match behind.split_once('?') {
        Some((path, query)) => [path, query.split_once('#').map_or("", |(_, fragment)| fragment)],
        None => [behind, ""],
    };
    if !host.contains('@') && behind.iter().any(|part| part.contains('@')) {
        return Err(torn_password());
    }
    Ok(())
}

fn torn_password() -> StoreError {
    StoreError::Config(
        "the URL of the database cannot be read: in a name or password write `/` as `%2F`, `?` as `%3F`, `#` as `%23`, `&` as `%26` and `@` as `%40`"
            .into(),
    )
}

/// The answer to the option `name` of `url`, which is none of `known`: it names the nearest one.
///
/// Where the option may be a piece of a password that was not encoded, nothing of it is shown.
pub fn unknown_option(url: &str, name: &str, known: &[&str]) -> StoreError {
    if is_password_torn(url) {
        return torn_password();
    }
    let hint = match nearest(name, known) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("known are `{}`", known.join("`, `")),
    };
    StoreError::Config(format!("the URL of the database has an unknown option `{name}`; {hint}"))
}

/// Whether what stands before the host was cut in two by a `?`: the host comes behind it.
fn is_password_torn(url: &str) -> bool {
    url.split_once('?').is_some_and(|(before, query)| !before.contains('@') && query.contains('@'))
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: [&str; 2] = ["sslmode", "host"];

    fn answer(url: &str) -> String {
        let (name, _) = options(url).next().unwrap();
        unknown_option(url, name, &KNOWN).to_string()
    }

    /// S4: a misspelt option is answered with the right one, another with those that there are.
    #[test]
    fn misspelt_options_are_answered_with_the_right_one() {
        assert!(
            answer("postgres://app:seventeen@db/shop?sslmod=on")
                .ends_with("`sslmod`; did you mean `sslmode`?")
        );
        assert!(answer("postgres://db/shop?color=red#top").ends_with("`color`; known are `sslmode`, `host`"));
    }

    /// A password that the URL tears apart is not shown, not even a piece of it.
    #[test]
    fn torn_passwords_are_not_shown() {
        for url in [
            "postgres://app:a?seventeen@db/shop",
            "postgres://app:a?seven&teen@db/shop",
            "mysql://a:b?seven=teen@db",
        ] {
            let answer = answer(url);
            assert!(
                answer.contains("`%3F`") && !answer.contains("seven") && !answer.contains("teen@"),
                "{answer}"
            );
        }
    }

    /// A password that a `/` or `#` tears apart is told before anything is made of its pieces; an `@` elsewhere is none.
    #[test]
    fn passwords_that_become_a_path_are_refused() {
        for url in [
            "postgres://app:7/seven@db/shop",
            "postgres://app:7#seven@db/shop",
            "postgres://app/seven:teen@db/shop",
            "mysql://app:7/seven@db/shop?ssl-mode=REQUIRED",
            "mysql://app:7/se?ven#teen@db/shop",
            "postgres:///seven@db",
        ] {
            let answer = check_password(url).unwrap_err().to_string();
            assert!(answer.contains("`%2F`") && !answer.contains("seven"), "{url}: {answer}");
        }
        for url in [
            "postgres://app:seven@db/shop",
            "postgres://app:seven@db/sh@p",
            "postgres://app:seven%2Fteen@db:5432",
            "postgres://db/shop?user=app@tenant",
            "postgres://db/shop",
            "sqlite::memory:",
        ] {
            assert!(check_password(url).is_ok(), "{url}");
        }
    }
}
