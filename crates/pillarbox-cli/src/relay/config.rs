//! What a relay is to do, as its file says.

mod mistakes;
pub(crate) mod store;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;

use pillarbox::{Route, Settings, SettingsError, Template, TemplateError};
use pillarbox_message::{Messages, Mode};
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use self::mistakes::misunderstood;
use super::document::{Document, Mistake, discreet, unknown_key};
use super::log;

/// The tables of the file.
const TABLES: [&str; 7] = ["outbox", "outboxes", "messages", "sinks", "routes", "http", "log"];

/// The name of an outbox that has none.
const ONLY: &str = "outbox";

/// What a relay is to do.
pub(crate) struct Config {
    pub(crate) document: Document,
    pub(crate) outboxes: Vec<(String, Settings)>,
    pub(crate) sinks: Vec<SinkTable>,
    pub(crate) routes: Vec<RouteTable>,
    pub(crate) messages: MessagesTable,
    pub(crate) http: HttpTable,
    pub(crate) log: LogTable,
}

/// A sink as the file has it.
pub(crate) struct SinkTable {
    pub(crate) name: String,
    /// Where it stands in the text.
    pub(crate) at: usize,
    /// What it is: `kafka`, `nats`, …
    pub(crate) kind: String,
}

/// How events become messages.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct MessagesTable {
    pub(crate) source: Spanned<String>,
    #[serde(default)]
    mode: ModeWord,
    #[serde(default)]
    send_context: bool,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum ModeWord {
    #[default]
    Binary,
    Structured,
}

/// What of the relay can be reached by HTTP, and where.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct HttpTable {
    pub(crate) enabled: bool,
    #[serde(deserialize_with = "address")]
    pub(crate) listen: SocketAddr,
}

fn address<'de, D: Deserializer<'de>>(deserializer: D) -> Result<SocketAddr, D::Error> {
    let given = String::deserialize(deserializer)?;
    given.parse().map_err(|_| {
        let remedy = "write an IP address and a port, as in `127.0.0.1:9464`";
        D::Error::custom(format_args!("`{given}` is no address to listen on; {remedy}"))
    })
}

impl Default for HttpTable {
    fn default() -> Self {
        Self { enabled: true, listen: SocketAddr::from(([127, 0, 0, 1], 9464)) }
    }
}

/// How the relay logs.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct LogTable {
    pub(crate) format: LogFormat,
    pub(crate) level: Option<Spanned<String>>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(crate) enum LogFormat {
    #[default]
    Text,
    Json,
}

/// A route as the file has it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RouteTable {
    pub(crate) name: Spanned<String>,
    /// The outboxes whose events it takes; all if none is named.
    #[serde(default)]
    pub(crate) outbox: Words,
    #[serde(default)]
    event_type: Words,
    #[serde(default)]
    aggregate_type: Words,
    #[serde(default)]
    tenant: Words,
    #[serde(default)]
    headers: BTreeMap<String, Words>,
    to: Spanned<OneOrMore<To>>,
}

/// One text or several.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(untagged, expecting = "expected a text, or a list of texts")]
pub(crate) enum Words {
    #[default]
    None,
    One(String),
    Several(Vec<String>),
}

impl Words {
    pub(crate) fn as_slice(&self) -> &[String] {
        match self {
            Self::None => &[],
            Self::One(word) => std::slice::from_ref(word),
            Self::Several(words) => words,
        }
    }
}

#[derive(Clone, Debug, Deserialize)]
#[serde(untagged, expecting = "expected the name of a sink, `{ sink = …, address = … }`, or a list of these")]
enum OneOrMore<T> {
    More(Vec<T>),
    One(T),
}

/// A sink that a route leads to.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged, expecting = "expected the name of a sink, or `{ sink = …, address = … }`")]
enum To {
    Sink(String),
    Address { sink: String, address: String },
}

impl Config {
    pub(crate) fn read(file: &Path) -> Result<Self, Mistake> {
        Self::of(Document::read(file)?)
    }

    fn of(document: Document) -> Result<Self, Mistake> {
        let root = document.parse()?.into_inner();
        if let Some((key, _)) = root.iter().find(|(key, _)| !TABLES.contains(&key.get_ref().as_ref())) {
            let text = unknown_key(key.get_ref(), &TABLES, "");
            return Err(document.mistake(key.span().start, text));
        }
        let outboxes = outboxes(&document, &root)?;
        let sinks = sinks(&document, &root)?;
        let messages = match root.get("messages") {
            Some(value) => document.value("messages", value)?,
            None => return Err(document.whole("`[messages]` is missing: its `source` names this outbox to consumers, as in `source = \"/shop/orders\"`")),
        };
        let routes: Vec<RouteTable> = match root.get("routes") {
            Some(value) => document.value("routes", value)?,
            None => {
                return Err(
                    document.whole("there are no routes: `[[routes]]` says which events go to which sinks")
                );
            }
        };
        let optional = |name: &str| root.get(name);
        let http =
            optional("http").map(|value| document.value("http", value)).transpose()?.unwrap_or_default();
        let log: LogTable =
            optional("log").map(|value| document.value("log", value)).transpose()?.unwrap_or_default();
        if let Some(level) = &log.level {
            let wrong = |error| document.mistake(level.span().start, format!("`level` in `log`: {error}"));
            log::check(level.get_ref()).map_err(wrong)?;
        }
        if routes.is_empty() {
            return Err(
                document.whole("there are no routes: `[[routes]]` says which events go to which sinks")
            );
        }
        let names: Vec<String> = outboxes.iter().map(|(name, _)| name.clone()).collect();
        drop(root);
        let config = Self { document, outboxes, sinks, routes, messages, http, log };
        config.check_names(&names)?;
        Ok(config)
    }

    /// The outboxes that routes name are there.
    fn check_names(&self, outboxes: &[String]) -> Result<(), Mistake> {
        let known: Vec<&str> = outboxes.iter().map(String::as_str).collect();
        for route in &self.routes {
            if let Some(unknown) = route.outbox.as_slice().iter().find(|name| !outboxes.contains(name)) {
                let text = format!(
                    "route `{}`: {}",
                    route.name.get_ref(),
                    unknown_key(unknown, &known, "").replacen("unknown key", "there is no outbox", 1)
                );
                return Err(self.document.mistake(route.name.span().start, text));
            }
        }
        Ok(())
    }

    /// How events become messages.
    pub(crate) fn messages(&self) -> Result<Messages, Mistake> {
        let table = &self.messages;
        let messages = Messages::from_source(table.source.get_ref())
            .map_err(|error| self.document.mistake(table.source.span().start, error.to_string()))?;
        let mode = match table.mode {
            ModeWord::Binary => Mode::Binary,
            ModeWord::Structured => Mode::Structured,
        };
        Ok(messages.mode(mode).with_context(table.send_context))
    }

    /// The options of a sink.
    pub(crate) fn sink_options<T: DeserializeOwned>(&self, sink: &SinkTable) -> Result<T, Mistake> {
        let root = self.document.parse()?;
        let value = root.get_ref().get("sinks").and_then(|sinks| sinks.get_ref().get(&*sink.name));
        let value = value.ok_or_else(|| self.document.mistake(sink.at, "the sink is gone"))?;
        self.document.value(&format!("sinks.{}", sink.name), value)
    }

    /// The routes that take events of an outbox.
    pub(crate) fn routes_of(&self, outbox: &str) -> Result<Vec<Route>, Mistake> {
        let takes = |route: &&RouteTable| {
            let named = route.outbox.as_slice();
            named.is_empty() || named.iter().any(|name| name == outbox)
        };
        self.routes.iter().filter(takes).map(|route| self.route(route)).collect()
    }

    fn route(&self, table: &RouteTable) -> Result<Route, Mistake> {
        let mut route = Route::new(table.name.get_ref());
        for pattern in table.event_type.as_slice() {
            route = route.event_type(pattern);
        }
        for pattern in table.aggregate_type.as_slice() {
            route = route.aggregate_type(pattern);
        }
        for pattern in table.tenant.as_slice() {
            route = route.tenant(pattern);
        }
        for (name, patterns) in &table.headers {
            for pattern in patterns.as_slice() {
                route = route.header(name, pattern);
            }
        }
        let to = match table.to.get_ref() {
            OneOrMore::More(all) => all.as_slice(),
            OneOrMore::One(one) => std::slice::from_ref(one),
        };
        for to in to {
            route = match to {
                To::Sink(sink) => route.to(sink),
                To::Address { sink, address } => {
                    let address: Template = address.parse().map_err(|error: TemplateError| {
                        let error = error.to_string().replace(address, &discreet(address));
                        let text = format!("route `{}`, sink `{sink}`: {error}", table.name.get_ref());
                        self.document.mistake(table.to.span().start, text)
                    })?;
                    route.to_address(sink, address)
                }
            };
        }
        Ok(route)
    }
}

/// The options of every outbox: of `[outbox]`, or of each table in `[outboxes]`. Variables win over the file:
/// `PILLARBOX_…`, and `PILLARBOX_NAME_…` for one of several.
fn outboxes(document: &Document, root: &DeTable<'_>) -> Result<Vec<(String, Settings)>, Mistake> {
    let read = |table: &str, name: &str, prefix: &str| -> Result<(String, Settings), Mistake> {
        let told = |error: SettingsError| misunderstood(document, &error);
        let file = Settings::from_table_in_toml(&document.text, table).map_err(told)?;
        let variables = Settings::from_env_with(prefix).map_err(told)?;
        Ok((name.to_owned(), file.merge(variables)))
    };
    match (root.get("outbox"), root.get("outboxes").and_then(|value| value.get_ref().as_table())) {
        (Some(_), Some(_)) => Err(document.whole(
            "both `[outbox]` and `[outboxes]` are there; give every outbox a name in `[outboxes.NAME]`",
        )),
        (Some(_), None) => Ok(vec![read("outbox", ONLY, "PILLARBOX_")?]),
        (None, Some(tables)) if !tables.is_empty() => {
            let read = |name: &str| {
                let prefix = format!("PILLARBOX_{}_", name.to_uppercase().replace('-', "_"));
                read(&format!("outboxes.{name}"), name, &prefix)
            };
            tables.keys().map(|name| read(name.get_ref())).collect()
        }
        (None, _) => Err(document.whole("there is no outbox: `[outbox.store]` says where its database is")),
    }
}

fn sinks(document: &Document, root: &DeTable<'_>) -> Result<Vec<SinkTable>, Mistake> {
    let Some(sinks) = root.get("sinks").and_then(|value| value.get_ref().as_table()) else {
        return Err(document.whole("there are no sinks: `[sinks.NAME]` with a `type` says where events go"));
    };
    let read = |(name, value): (&Spanned<_>, &Spanned<DeValue<'_>>)| {
        let name: &toml::de::DeString<'_> = name.get_ref();
        let kind = value.get_ref().get("type").and_then(|kind| kind.get_ref().as_str());
        let Some(kind) = kind else {
            let text = format!("`type` is missing in `sinks.{name}`: what it is, such as `kafka` or `http`");
            return Err(document.mistake(value.span().start, text));
        };
        Ok(SinkTable { name: name.to_string(), at: value.span().start, kind: kind.to_owned() })
    };
    sinks.iter().map(read).collect()
}
