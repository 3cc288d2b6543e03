//! A relay's file, and all that it names.

use std::path::Path;

use pillarbox::Settings;
use pillarbox::store::{Check, Diagnosis};
use pillarbox_any::AnyStore;
use pillarbox_message::{Finding, Messages, Severity};

use super::report::Subject;
use crate::figure;
use crate::relay::config::store::url;
use crate::relay::config::{Config, SinkTable};
use crate::relay::document::Mistake;
use crate::relay::sinks::{self, Made};
use crate::relay::{self, usable};

/// Examines the file, its outboxes and its sinks. What is wrong with one keeps no other from being examined; a file that
/// cannot be read at all is refused.
pub(super) async fn examine(file: &Path) -> anyhow::Result<Vec<Subject>> {
    let config = usable(Config::read(file))?;
    let messages = usable(config.messages())?;
    let made: Vec<_> = config.sinks.iter().map(|table| sinks::make(&config, table, &messages)).collect();
    let mut subjects = Vec::new();
    for (name, settings) in &config.outboxes {
        subjects.push(outbox(name, settings).await);
    }
    for (table, made) in config.sinks.iter().zip(&made) {
        let checks = sink(made, &messages).await;
        subjects.push(Subject { kind: "sink", name: named(table), checks });
    }
    let checks = vec![of_file(&config, made)];
    subjects.insert(0, Subject { kind: "file", name: file.display().to_string(), checks });
    Ok(subjects)
}

fn named(table: &SinkTable) -> String {
    format!("{} ({})", table.name, table.kind)
}

/// Whether a relay would start with this file, as far as that can be told without connecting.
fn of_file(config: &Config, made: Vec<Result<Made, Mistake>>) -> Check {
    let (outboxes, sinks, routes) = (config.outboxes.len(), made.len(), config.routes.len());
    match mistake(config, made) {
        None => Check::ok("file", format!("{outboxes} outboxes, {sinks} sinks, {routes} routes")),
        Some(mistake) => Check::problem("file", mistake),
    }
}

fn mistake(config: &Config, made: Vec<Result<Made, Mistake>>) -> Option<String> {
    for (name, settings) in &config.outboxes {
        if let Err(error) = settings.check() {
            return Some(format!("outbox `{name}`: {error}"));
        }
    }
    let sinks = match made.into_iter().collect::<Result<Vec<Made>, Mistake>>() {
        Ok(sinks) => sinks,
        Err(mistake) => return Some(mistake.to_string()),
    };
    let routed = config.outboxes.iter().map(|(name, _)| relay::routing(config, name, &sinks));
    routed.filter_map(Result::err).map(|mistake| mistake.to_string()).next()
}

async fn outbox(name: &str, settings: &Settings) -> Subject {
    let store = settings.store();
    let examined = match url(&store) {
        Ok(url) => {
            let examined = AnyStore::options(url).settings(&store).examine().await;
            examined.map_err(|error| error.to_string())
        }
        Err(error) => Err(error.to_string()),
    };
    match examined {
        Ok(Diagnosis { database, mut checks }) => {
            checks.push(retention(settings));
            Subject { kind: "outbox", name: format!("{name} ({database})"), checks }
        }
        Err(error) => {
            let checks = vec![Check::problem("database", error)];
            Subject { kind: "outbox", name: name.to_owned(), checks }
        }
    }
}

/// Whether done events ever go away.
fn retention(settings: &Settings) -> Check {
    let options = settings.options();
    let value = |name: &str| {
        let option = options.iter().find(|option| option.name == name);
        option.and_then(|option| option.value.as_deref()).map(|value| value.trim_matches('"'))
    };
    match (value("delete_done"), value("keep_done_for")) {
        (Some("true"), _) => Check::ok("retention", "done events are deleted at once"),
        (_, Some(time)) => Check::ok("retention", format!("done events are kept for {time}")),
        (_, None) => Check::warning("retention", "done events are kept for ever: the table grows")
            .remedy("set `keep_done_for`, or `delete_done = true`"),
    }
}

/// What a sink finds out about its server.
async fn sink(made: &Result<Made, Mistake>, messages: &Messages) -> Vec<Check> {
    let made = match made {
        Ok(made) => made,
        Err(mistake) => return vec![Check::problem("settings", mistake.to_string())],
    };
    let largest = figure::count(messages.largest() as u64);
    match sinks::findings(made).await {
        None => vec![
            Check::problem("server", "it does not answer in time; events wait until it does")
                .remedy("see whether it runs, and correct its address"),
        ],
        Some(findings) if findings.is_empty() => vec![Check::ok(
            "server",
            format!(
                "nothing that it tells weakens the promise, or keeps the largest event out ({largest} bytes)"
            ),
        )],
        Some(findings) => findings.into_iter().map(check).collect(),
    }
}

fn check(Finding { severity, text }: Finding) -> Check {
    match severity {
        Severity::Unknown => Check::unknown("server", text),
        Severity::Warning => Check::warning("server", text),
        Severity::Unreachable | Severity::Refusal => Check::problem("server", text),
    }
}

#[cfg(test)]
mod tests {
    use pillarbox::store::Health;

    use super::*;

    fn of(toml: &str) -> Check {
        retention(&Settings::from_toml(toml).unwrap())
    }

    #[test]
    fn done_events_that_are_kept_for_ever_are_a_warning() {
        assert_eq!(of("").health, Health::Warning);
        assert_eq!(of("keep_done_for = \"30d\"").found, "done events are kept for 30d");
        assert_eq!(of("delete_done = true").health, Health::Ok);
    }

    #[test]
    fn findings_of_sinks_keep_their_weight() {
        for (finding, health) in [
            (Finding::unknown("hidden"), Health::Unknown),
            (Finding::warning("weak"), Health::Warning),
            (Finding::unreachable("away"), Health::Problem),
            (Finding::refusal("no"), Health::Problem),
        ] {
            assert_eq!(check(finding).health, health);
        }
    }
}
