//! Webhooks.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use pillarbox::BoxFuture;
use pillarbox_http::{HttpOptions, HttpSink, PrivateAddresses, WebhookSecret};
use pillarbox_message::{Finding, Messages};
use serde::Deserialize;

use super::option::{revealed, template};
use super::{Checked, Own};
use crate::age::Age;
use crate::exit;
use crate::relay::config::{Config, SinkTable};
use crate::relay::document::Mistake;
use crate::relay::secret::Secret;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Options {
    #[serde(rename = "type")]
    _kind: String,
    url: Secret,
    #[serde(default)]
    secrets: Vec<Secret>,
    #[serde(default)]
    headers: BTreeMap<String, Secret>,
    #[serde(default)]
    allow_private: AllowPrivate,
    ca_file: Option<PathBuf>,
    concurrency: Option<usize>,
    connect_timeout: Option<Age>,
    request_timeout: Option<Age>,
    max_body: Option<usize>,
}

/// Which private addresses may be sent to.
#[derive(Deserialize)]
#[serde(untagged, expecting = "expected `true`, `false` or a list of networks such as `[\"10.0.0.0/8\"]`")]
enum AllowPrivate {
    All(bool),
    Networks(Vec<String>),
}

impl Default for AllowPrivate {
    fn default() -> Self {
        Self::All(false)
    }
}

impl Checked for HttpSink {
    fn findings(&self) -> BoxFuture<'_, Vec<Finding>> {
        Box::pin(self.check())
    }
}

pub(super) fn make(
    config: &Config,
    table: &SinkTable,
    messages: Messages,
) -> Result<(Arc<dyn Checked>, Own), Mistake> {
    let given: Options = config.sink_options(table)?;
    let mut options = HttpOptions::new();
    for secret in &given.secrets {
        let secret: WebhookSecret = revealed(config, table, "secrets", secret)?
            .parse()
            .map_err(|error| config.wrong(table, format!("`secrets`: {error}")))?;
        options = options.sign_with(secret);
    }
    for (name, value) in &given.headers {
        let value = revealed(config, table, &format!("headers.{name}"), value)?;
        options = options.header(name, &value).map_err(|error| config.wrong(table, error))?;
    }
    let private = match given.allow_private {
        AllowPrivate::All(true) => PrivateAddresses::Allowed,
        AllowPrivate::All(false) => PrivateAddresses::Refused,
        AllowPrivate::Networks(networks) => {
            let networks: Result<Vec<_>, _> = networks.iter().map(|network| network.parse()).collect();
            PrivateAddresses::In(
                networks.map_err(|error| config.wrong(table, format!("`allow_private`: {error}")))?,
            )
        }
    };
    options = options.allow_private(private);
    if let Some(file) = &given.ca_file {
        let unfit = |error: String| config.wrong(table, format!("`ca_file` `{}`: {error}", file.display()));
        let pem = std::fs::read(file).map_err(|error| unfit(error.to_string()))?;
        options = options.trust(&pem).map_err(|error| unfit(error.to_string()))?;
    }
    if let Some(concurrency) = given.concurrency {
        options = options.concurrency(concurrency);
    }
    if let Some(limit) = given.connect_timeout {
        options = options.connect_timeout(limit.duration);
    }
    if let Some(limit) = given.request_timeout {
        options = options.request_timeout(limit.duration);
    }
    if let Some(bytes) = given.max_body {
        options = options.max_body(bytes);
    }
    let url = template(config, table, "url", &revealed(config, table, "url", &given.url)?)?;
    // With its causes: that the system has no certificates stands in the last of them.
    let unfit = |error| config.wrong(table, exit::text(&anyhow::Error::new(error)));
    let own = Own { address: Some(url.clone()), always: None };
    let sink = HttpSink::new(url, messages, options).map_err(unfit)?;
    Ok((Arc::new(sink), own))
}
