//! What a sink was made of, to find out whether that has changed.

use std::hash::{DefaultHasher, Hash, Hasher};

use toml::de::DeValue;

use super::config::{Config, SinkTable};

/// What a sink is made of, in a number: its table, the files that are named in it, and how events become messages. Where
/// it stands in the file does not count.
pub(crate) fn of(config: &Config, sink: &SinkTable) -> u64 {
    let mut hasher = DefaultHasher::new();
    let Ok(root) = config.document.parse() else { return 0 };
    let sinks = root.get_ref().get("sinks").map(|sinks| sinks.get_ref());
    let tables = [root.get_ref().get("messages"), sinks.and_then(|sinks| sinks.get(&*sink.name))];
    for table in tables.into_iter().flatten() {
        take_in(&mut hasher, "", table.get_ref());
    }
    hasher.finish()
}

fn take_in(hasher: &mut DefaultHasher, key: &str, value: &DeValue<'_>) {
    match value {
        DeValue::Table(table) => {
            for (key, value) in table {
                key.get_ref().hash(hasher);
                take_in(hasher, key.get_ref(), value.get_ref());
            }
        }
        DeValue::Array(items) => items.iter().for_each(|item| take_in(hasher, key, item.get_ref())),
        DeValue::String(text) => {
            text.hash(hasher);
            if key == "file" || key.ends_with("_file") {
                // One that cannot be read is told of when the sink is made.
                std::fs::read(&**text).unwrap_or_default().hash(hasher);
            }
        }
        DeValue::Integer(number) => number.as_str().hash(hasher),
        DeValue::Float(number) => number.as_str().hash(hasher),
        DeValue::Boolean(flag) => flag.hash(hasher),
        DeValue::Datetime(time) => time.to_string().hash(hasher),
    }
}
