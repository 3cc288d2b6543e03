//! What a URL may say.

use pillarbox::store::StoreError;
use pillarbox_sql::url::{check_password, options, unknown_option};
use sqlx::ConnectOptions;
use sqlx::postgres::PgConnectOptions;

/// Every option that the driver knows; others it would ignore, with a warning that shows their value.
const KNOWN: [&str; 19] = [
    "sslmode",
    "ssl-mode",
    "sslrootcert",
    "ssl-root-cert",
    "ssl-ca",
    "sslcert",
    "ssl-cert",
    "sslkey",
    "ssl-key",
    "statement-cache-capacity",
    "host",
    "hostaddr",
    "port",
    "dbname",
    "user",
    "password",
    "application_name",
    "options",
    "options[…]",
];

/// The options of a URL, all of which must be known.
pub(super) fn parse(url: &str) -> Result<PgConnectOptions, StoreError> {
    match url.split_once("://") {
        Some(("postgres" | "postgresql", _)) => {}
        Some((scheme, _)) => {
            return Err(StoreError::Config(format!(
                "`{scheme}://` is no PostgreSQL database; give a URL that begins with `postgres://`"
            )));
        }
        None => {
            let example = "postgres://user:password@host:5432/database";
            return Err(StoreError::Config(format!("this is not a URL; give one like `{example}`")));
        }
    }
    check_password(url)?;
    for (name, _) in options(url) {
        check(url, name)?;
    }
    url.parse().map_err(|error: sqlx::Error| {
        let reason = match error {
            sqlx::Error::Configuration(reason) => reason.to_string(),
            other => other.to_string(),
        };
        // The URL itself is not shown: there may be a password in it.
        StoreError::Config(format!("the URL of the database cannot be read: {reason}"))
    })
}

/// Whether these options forbid prepared statements that are kept, as one does behind a pooler.
pub(super) fn asks_for_no_cache(options: &PgConnectOptions) -> bool {
    let url = options.to_url_lossy();
    url.query_pairs().any(|(name, value)| name == "statement-cache-capacity" && value == "0")
}

fn check(url: &str, name: &str) -> Result<(), StoreError> {
    let is_setting = name.starts_with("options[") || name.to_ascii_lowercase().starts_with("options%5b");
    if is_setting || KNOWN.contains(&name) {
        return Ok(());
    }
    Err(unknown_option(url, name, &KNOWN))
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
        let error = refused("postgres://app:seventeen@db.example/shop?sslmod=require");

        assert!(error.contains("`sslmod`") && error.contains("did you mean `sslmode`?"), "{error}");
        assert!(!error.contains("seventeen"), "{error}");
        assert!(refused("postgres://db/shop?color=red").contains("known are `sslmode`"));
    }

    /// What the driver knows is let through, settings in brackets too.
    #[test]
    fn known_options_pass() {
        for query in ["", "?", "?sslmode=require&application_name=shop", "?options[search_path]=shop#top"] {
            parse(&format!("postgresql://app@db.example/shop{query}")).unwrap();
        }
    }

    /// What is no URL of PostgreSQL is said to be none, and not shown.
    #[test]
    fn other_urls_are_refused() {
        assert!(refused("mysql://app:seventeen@db/shop").contains("`mysql://` is no PostgreSQL database"));
        for broken in [
            "db.example:seventeen",
            "postgres://app:seventeen@db:port/shop",
            "postgres://[seventeen/shop",
            "postgres://app:a?seventeen@db/shop",
            "postgres://app:7/seventeen@db/shop",
            "postgres://app:7#seventeen@db/shop",
        ] {
            let error = refused(broken);
            assert!(!error.contains("seventeen"), "{error}");
        }
    }

    /// A URL that forbids kept statements means a pooler.
    #[test]
    fn no_cache_means_a_pooler() {
        assert!(asks_for_no_cache(&parse("postgres://db/shop?statement-cache-capacity=0").unwrap()));
        assert!(!asks_for_no_cache(&parse("postgres://db/shop").unwrap()));
    }
}
