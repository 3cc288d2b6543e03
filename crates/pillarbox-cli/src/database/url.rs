//! Whether a URL leads to a database, as far as that can be told without connecting.

use pillarbox_any::Kind;

use super::SqliteFile;
use crate::exit::Unusable;

/// Refuses a path or a URL that leads to no database. Nothing of it is repeated but the scheme: there may be a password in
/// it.
pub(crate) fn check(url: &str) -> Result<(), Unusable> {
    match Kind::of(url).map_err(|error| Unusable(error.to_string()))? {
        Kind::Sqlite => url.parse::<SqliteFile>().map(drop),
        kind => check_server(url).map_err(|reason| {
            let (scheme, port) = if kind == Kind::MySql { ("mysql", 3306) } else { ("postgres", 5432) };
            let example = format!("{scheme}://user:password@host:{port}/database");
            Unusable(format!("the URL of the database cannot be read: {reason}; write it as `{example}`"))
        }),
    }
}

/// Why this is no URL of a server.
fn check_server(url: &str) -> Result<(), &'static str> {
    let (_, rest) = url.split_once("://").ok_or("it has no `://`")?;
    let (authority, behind) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    let path = behind.split('?').next().unwrap_or_default();
    if path.contains('@') && !authority.contains('@') {
        return Err("special characters of a name or password are to be written as `%` and two digits");
    }
    let (login, address) = authority.rsplit_once('@').unwrap_or(("", authority));
    let (host, port) = split_port(address).ok_or("what stands in brackets is no IPv6 address")?;
    if host.is_empty() && !(login.is_empty() && port.is_empty()) {
        return Err("it names no host");
    }
    if host.contains(|letter: char| letter.is_whitespace() || "<>[]\\^|:".contains(letter)) {
        return Err("the host has a character that no host has");
    }
    match port.is_empty() || port.parse::<u16>().is_ok() {
        true => Ok(()),
        false => Err("the port is no number up to 65535"),
    }
}

/// Host and port, each as far as it is given; `None` if there is no address in brackets.
fn split_port(address: &str) -> Option<(&str, &str)> {
    let Some(bracketed) = address.strip_prefix('[') else {
        return Some(address.split_once(':').unwrap_or((address, "")));
    };
    let (host, port) = bracketed.split_once(']')?;
    let is_address = host.parse::<std::net::Ipv6Addr>().is_ok();
    is_address.then(|| ("v6", port.strip_prefix(':').unwrap_or(port)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// M4: what leads to a database passes, a socket and several kinds of addresses among it.
    #[test]
    fn urls_of_databases_pass() {
        for url in [
            "shop.db",
            "sqlite:///var/shop.db?mode=rw",
            "postgres://localhost/shop",
            "postgresql:///shop?host=/run/postgresql",
            "POSTGRES://shop:p%40ss@db.example:5432/shop?sslmode=require&options=-c%20a@b",
            "mysql://shop@[::1]:3306/shop",
            "mariadb://shop:@10.0.0.7/shop",
            "mysql://db.example:/shop",
        ] {
            assert!(check(url).is_ok(), "{url}");
        }
    }

    /// M4: what leads to none is refused with what is wrong with it, and how it is written; the password is not shown.
    #[test]
    fn other_urls_are_refused() {
        for (url, reason) in [
            ("postgres:seventeen", "it has no `://`"),
            ("postgres:/shop:seventeen@db/shop", "it has no `://`"),
            ("postgres://shop:seven/teen@db/shop", "special characters of a name or password"),
            ("postgres://shop:seven#teen@db/shop", "special characters of a name or password"),
            ("postgres://shop:seventeen@/shop", "it names no host"),
            ("postgres://:5432/shop", "it names no host"),
            ("postgres://shop:seventeen@db:port/shop", "the port is no number up to 65535"),
            ("postgres://shop:seventeen@db:70000/shop", "the port is no number up to 65535"),
            ("postgres://shop:seventeen@<host>/shop", "the host has a character that no host has"),
            ("postgres://shop:seventeen@my db/shop", "the host has a character that no host has"),
            ("postgres://shop:seventeen@[::1/shop", "what stands in brackets is no IPv6 address"),
        ] {
            let answer = check(url).unwrap_err().to_string();

            let expected = format!("the URL of the database cannot be read: {reason}");
            assert!(answer.starts_with(&expected), "{url}: {answer}");
            assert!(
                answer.ends_with("; write it as `postgres://user:password@host:5432/database`"),
                "{answer}"
            );
            assert!(!answer.contains("seventeen") && !answer.contains("teen@"), "{answer}");
        }
    }
}
