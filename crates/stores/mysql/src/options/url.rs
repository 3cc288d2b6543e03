//! What a URL may say.

use pillarbox::store::StoreError;
use pillarbox_sql::url::{check_password, options, unknown_option};
use sqlx::mysql::MySqlConnectOptions;

/// Every option that the driver knows; others it would ignore.
const KNOWN: [&str; 14] = [
    "ssl-mode",
    "sslmode",
    "ssl-ca",
    "sslca",
    "ssl-cert",
    "sslcert",
    "ssl-key",
    "sslkey",
    "socket",
    CACHE,
    "timezone",
    "time-zone",
    "charset",
    "collation",
];

const CACHE: &str = "statement-cache-capacity";

/// How many statements a connection keeps prepared, if the URL does not say it: more than an INSERT for each number of
/// events, and yours. One that is given up costs whoever prepares the next 40 ms.
const KEPT_STATEMENTS: usize = 256;

/// The options of a URL, all of which must be known.
pub(super) fn parse(url: &str) -> Result<MySqlConnectOptions, StoreError> {
    match url.split_once("://") {
        Some(("mysql" | "mariadb", _)) => {}
        Some((scheme, _)) => {
            return Err(StoreError::Config(format!(
                "`{scheme}://` is no MySQL database; give a URL that begins with `mysql://` or `mariadb://`"
            )));
        }
        None => {
            let example = "mysql://user:password@host:3306/database";
            return Err(StoreError::Config(format!("this is not a URL; give one like `{example}`")));
        }
    }
    check_password(url)?;
    for (name, value) in options(url) {
        check(url, name, value)?;
    }
    let parsed = url.parse().map_err(|error: sqlx::Error| {
        let reason = match error {
            sqlx::Error::Configuration(reason) => reason.to_string(),
            other => other.to_string(),
        };
        // The URL itself is not shown: there may be a password in it.
        StoreError::Config(format!("the URL of the database cannot be read: {reason}"))
    });
    let options: MySqlConnectOptions = parsed?;
    let says_how_many = self::options(url).any(|(name, _)| name == CACHE);
    Ok(if says_how_many { options } else { options.statement_cache_capacity(KEPT_STATEMENTS) })
}

fn check(url: &str, name: &str, value: &str) -> Result<(), StoreError> {
    if !KNOWN.contains(&name) {
        return Err(unknown_option(url, name, &KNOWN));
    }
    if name == "charset" && value != "utf8mb4" {
        return Err(StoreError::Config(format!(
            "the URL of the database asks for the charset `{value}`, which cannot hold every event; leave it out, or use `utf8mb4`"
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(url: &str) -> String {
        parse(url).map(drop).unwrap_err().to_string()
    }

    /// A misspelt option is answered with the right one.
    #[test]
    fn a_misspelt_option_is_named() {
        let error = refused("mysql://app:seventeen@db.example/shop?ssl-mod=REQUIRED");

        assert!(error.contains("`ssl-mod`") && error.contains("did you mean `ssl-mode`?"), "{error}");
        assert!(!error.contains("seventeen"), "{error}");
        assert!(refused("mysql://db/shop?color=red").contains("known are `ssl-mode`"));
    }

    /// What the driver knows is let through.
    #[test]
    fn known_options_pass() {
        for query in ["", "?", "?ssl-mode=REQUIRED&charset=utf8mb4", "?statement-cache-capacity=10#top"] {
            parse(&format!("mysql://app@db.example/shop{query}")).unwrap();
        }
        parse("mariadb://app@db.example/shop").unwrap();
    }

    /// W11: a charset that loses characters is refused.
    #[test]
    fn other_charsets_are_refused() {
        assert!(refused("mysql://db/shop?charset=latin1").contains("`latin1`"));
    }

    /// What is no URL of MySQL is said to be none, and not shown.
    #[test]
    fn other_urls_are_refused() {
        assert!(refused("postgres://app:seventeen@db/shop").contains("`postgres://` is no MySQL database"));
        for broken in [
            "db.example:seventeen",
            "mysql://app:seventeen@db:port/shop",
            "mysql://[seventeen/shop",
            "mysql://app:7/seventeen@db/shop",
            "mysql://app:7#seventeen@db/shop",
        ] {
            let error = refused(broken);
            assert!(!error.contains("seventeen"), "{error}");
        }
    }
}
