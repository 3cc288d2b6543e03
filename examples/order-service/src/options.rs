//! What the environment says.

use anyhow::Context;

/// Where everything is.
pub(crate) struct Options {
    /// `DATABASE_URL`, which may have a password in it and is shown nowhere.
    pub(crate) database_url: String,
    /// `KAFKA_BROKERS`: `host:port`, several separated by commas.
    pub(crate) kafka_brokers: String,
    /// `ORDERS_TOPIC`: a template that the event fills.
    pub(crate) topic: String,
    /// `LISTEN`; loopback unless you say otherwise, for the admin's part asks for no password.
    pub(crate) listen: String,
}

impl Options {
    /// Reads the environment, or says which variable is missing.
    pub(crate) fn from_env() -> anyhow::Result<Self> {
        let given = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let required = |name: &str, example: &str| {
            given(name).with_context(|| format!("`{name}` is not set; for example {name}={example}"))
        };
        Ok(Self {
            database_url: required("DATABASE_URL", "postgres://shop@localhost/shop")?,
            kafka_brokers: required("KAFKA_BROKERS", "localhost:9092")?,
            topic: given("ORDERS_TOPIC").unwrap_or_else(|| "shop.{event_type}".to_owned()),
            listen: given("LISTEN").unwrap_or_else(|| "127.0.0.1:8080".to_owned()),
        })
    }
}
