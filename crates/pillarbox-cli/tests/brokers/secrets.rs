//! Secrets in every place that can have one, and none of them where anybody could read it.

use std::path::{Path, PathBuf};
use std::process::Command;

use pillarbox_testkit::servers;

use crate::arrivals::SOURCE;
use crate::database::{Database, Kind};
use crate::everywhere::Everywhere;
use crate::marks::{MARK, Marks};
use crate::program::{Answer, pillarbox};
use crate::relay::Relay;
use crate::tools::url_of;

/// Sinks whose servers take what they are given.
const ACCEPTED: [&str; 4] = ["nats", "rabbitmq", "redis", "http"];
/// Sinks whose servers do not, or are not there.
const REFUSED: [&str; 10] = [
    "kafka-sasl",
    "nats-url",
    "nats-token",
    "nats-user",
    "nats-nkey",
    "nats-credentials",
    "redis-url",
    "redis-password",
    "http-refused",
    "http-down",
];
/// Sinks that a relay does not start with, for their servers say that nothing will ever arrive.
const REFUSED_AT_ONCE: [&str; 2] = ["rabbitmq-url", "rabbitmq-user"];

/// The seed of a key as NATS has them, from its documentation.
const SEED: &str = "SUACSSL3UAHUDXKFSNVUZRF5UHPMWZ6BFDTJ7M6USDXIEDNPPQYYYCU3VY";

/// A signing secret: the mark, twice, in base64.
const SIGNING: &str = "whsec_WHE3TUFSS29mdGhlcmVsYXkxN1hxN01BUktvZnRoZXJlbGF5MTc=";

/// M4: at the most talkative level, with servers that accept and servers that refuse, no secret is in the output, in what
/// the relay tells of itself, or in the table.
pub(crate) async fn no_secret_is_ever_shown(brokers: &Everywhere) {
    let (database, directory) = (Database::new(Kind::Postgres), tempfile::tempdir().unwrap());
    for name in ACCEPTED.iter().chain(&REFUSED) {
        database.sql(&format!(
            "INSERT INTO outbox_event (event_id, event_type, event_key, payload) VALUES ('{name}', '{name}', '{name}', '{{}}');"
        ));
    }
    let marks = Marks::of(brokers, &[SEED]);
    let all = every_sink(brokers, directory.path());
    let names = |at_once: bool| all.iter().filter(move |(name, _)| REFUSED_AT_ONCE.contains(name) == at_once);
    let sinks: String = names(false).map(|(_, sink)| sink.as_str()).collect();
    let relay = Relay::start_with(&format!("{}{sinks}", head(&database.url)), &LOUDLY);

    relay
        .until("not every sink has had its say", |state| {
            let sinks = state["sinks"].as_array().unwrap();
            let is_refused = |name: &str| match name {
                "http-refused" => state["dead"] == 1,
                _ => sinks.iter().any(|sink| sink["name"] == name && sink["last_error"].is_string()),
            };
            state["delivered"] == ACCEPTED.len() && REFUSED.iter().all(|name| is_refused(name))
        })
        .await;

    marks.assert_absent("/status", &relay.get("/status"));
    marks.assert_absent("/metrics", &relay.get("/metrics"));
    let answer = relay.stop();
    assert_eq!(answer.code, Some(0), "{}", answer.err);
    marks.assert_absent_in(&answer);
    let told = "SELECT concat(coalesce(last_error, ''), coalesce(reason, ''), coalesce(handlers, '')) FROM outbox_event;";
    marks.assert_absent("the table", &database.sql(told));
    for (name, sink) in names(true) {
        let answer = ended(&format!("{}{sink}", head(&database.url)), directory.path());
        assert!(answer.err.contains(&format!("error: sink `{name}`: ")), "{}", answer.err);
        marks.assert_absent_in(&answer);
    }
    for server in [servers::POSTGRES, servers::MYSQL] {
        let url = url_of(server);
        let (scheme, host) = (url.split_once("://").unwrap().0, url.rsplit_once('@').unwrap().1);
        let refused = head(&format!("{scheme}://pillarbox:{MARK}@{host}"));
        let answer = ended(&format!("{refused}{CONSOLE}"), directory.path());
        assert!(answer.err.contains("password") || answer.err.contains("denied"), "{}", answer.err);
        marks.assert_absent_in(&answer);
    }
}

/// M4: no secret is shown by `config check`, by `routes test`, or when the file is wrong.
pub(crate) async fn no_secret_is_shown_by_a_mistake(brokers: &Everywhere) {
    let directory = tempfile::tempdir().unwrap();
    let marks = Marks::of(brokers, &[SEED]);
    let (file, event) = (directory.path().join("pillarbox.toml"), directory.path().join("event.json"));
    std::fs::write(&event, r#"{"event_type": "http"}"#).unwrap();
    let database = format!("postgres://relay:{MARK}@127.0.0.1:1/shop");
    let sinks: String = every_sink(brokers, directory.path()).into_iter().map(|(_, sink)| sink).collect();
    let right = format!("{}{sinks}", head(&database));
    let run = |text: &str| {
        std::fs::write(&file, text).unwrap();
        let check = ["config", "check"].map(Path::new);
        let routes = ["routes", "test"].map(Path::new);
        let answers = [check.to_vec(), [&routes[..], &[&event]].concat()].map(|command| {
            let mut program = pillarbox();
            program.args(command).arg("--config").arg(&file).envs(LOUDLY);
            Answer::of(program.output().unwrap())
        });
        answers.iter().for_each(|answer| marks.assert_absent_in(answer));
        answers
    };
    for answer in run(&right) {
        assert_eq!(answer.code, Some(0), "{}{}", answer.out, answer.err);
    }

    for (from, to) in mistakes() {
        let wrong = right.replacen(&from, &to, 1);
        assert_ne!(wrong, right, "{from}");
        let [check, _] = run(&wrong);
        assert_eq!(check.code, Some(2), "{to}: {}{}", check.out, check.err);
        assert!(check.err.contains("pillarbox.toml"), "{}", check.err);
    }
}

/// A sink that needs no secret.
const CONSOLE: &str = "[sinks.console]\ntype = 'stdout'\n[[routes]]\nname = 'all'\nto = 'console'\n";

/// The most talkative level, and the secrets that come from the environment.
const LOUDLY: [(&str, &str); 2] = [("RUST_LOG", "trace"), ("RELAY_SECRET", MARK)];

/// What is wrong, each with a secret in it: what stands in the right file, and what in its place.
fn mistakes() -> Vec<(String, String)> {
    let mistake = |from: &str, to: &str| (from.replace("MARK", MARK), to.replace("MARK", MARK));
    vec![
        mistake("url = 'postgres://relay:MARK@", "url = 'postgers://relay:MARK@"),
        mistake("url = 'postgres://relay:MARK@127.0.0.1:1/shop'", "url = ['MARK']"),
        mistake("url = 'postgres://relay:MARK@127.0.0.1:1/shop'", "ulr = 'MARK'"),
        mistake("token = 'MARK'", "tokn = 'MARK'"),
        mistake("token = 'MARK'", "token = 'MARK"),
        mistake("token = 'MARK'", "token = ['MARK']"),
        mistake("token = 'MARK'", "token = { value = 'MARK' }"),
        mistake("token = 'MARK'", "token = 'MARK'\ntoken = 'MARK'"),
        mistake("token = 'MARK'", "token = { file = '/nowhere' }\nuser = 'MARK'"),
        mistake("url = 'amqp://relay:MARK@", "url = 'http://relay:MARK@"),
        mistake("url = 'redis://:MARK@", "url = 'rediss//:MARK@"),
        mistake("secrets = [", "secrets = 'MARK'\nx = ["),
        mistake("secrets = [", "secrets = ['MARK', "),
        mistake("headers = { authorization = 'Bearer MARK' }", "headers = 'Bearer MARK'"),
        mistake("headers = { authorization = 'Bearer MARK' }", "headers = { 'no name' = 'MARK' }"),
        mistake("headers = { authorization = 'Bearer MARK' }", "headers = { authorization = \"MARK\\n\" }"),
        mistake("sasl = {", "sasl = 'MARK'\ntls = {"),
        mistake("mechanism = 'plain', user = 'relay'", "mechanism = 'plain'"),
        mistake("/refused?token=MARK'", "/refused?token=MARK&of={tenant'"),
        mistake("/refused?token=MARK'", "/refused?token=MARK&of={nobody}'"),
        mistake("http://127.0.0.1:1/", "http://relay:MARK@127.0.0.1:1/"),
        mistake("http://127.0.0.1:1/hooks?token=MARK", "htp://relay:MARK@127.0.0.1:1/"),
    ]
}

/// What stands before the sinks.
fn head(database: &str) -> String {
    format!(
        "[outbox]\npoll_every = '200ms'\nsink_pause = '100ms'\nlongest_sink_pause = '1s'\nretry = {{ max_attempts = 2 }}\n\
         [outbox.store]\nurl = '{database}'\n[messages]\nsource = '{SOURCE}'\n"
    )
}

/// A file with a password in it, and one with credentials of NATS.
fn secret_files(directory: &Path) -> (PathBuf, PathBuf) {
    let (secret, credentials) = (directory.join("secret"), directory.join("relay.creds"));
    std::fs::write(&secret, format!("{MARK}\n")).unwrap();
    let (begin, end) = ("-----BEGIN", "-----\n");
    std::fs::write(
        &credentials,
        format!(
            "{begin} NATS USER JWT{end}{MARK}.{MARK}.{MARK}\n------END NATS USER JWT------\n\n\
             {begin} USER NKEY SEED{end}{SEED}\n------END USER NKEY SEED------\n"
        ),
    )
    .unwrap();
    (secret, credentials)
}

/// A sink in every way that a secret can be given, with a route of the same name.
fn every_sink(brokers: &Everywhere, directory: &Path) -> Vec<(&'static str, String)> {
    let (secret, credentials) = secret_files(directory);
    let (secret, credentials) = (secret.display(), credentials.display());
    let Everywhere { kafka, nats, rabbitmq, redis, receiver } = brokers;
    let host = |url: &str| url.rsplit_once('@').unwrap().1.to_owned();
    let (amqp, stream, cache, hooks) =
        (host(&rabbitmq.url), host(&nats.url), host(&redis.url), receiver.address);
    let signed = format!("secrets = ['{SIGNING}']");
    let queue = format!("routing_key = '{}'", rabbitmq.name);
    let key = format!("stream = '{}'", redis.name);
    let subject = format!("subject = '{}.x'\nack_timeout = '2s'\nconnect_timeout = '2s'", nats.name);
    let private = "allow_private = true";
    vec![
        sink("nats", format!("url = '{}'\n{subject}", nats.url)),
        sink("rabbitmq", format!("url = '{}'\n{queue}", rabbitmq.url)),
        sink("redis", format!("url = '{}'\n{key}", redis.url)),
        sink(
            "http",
            format!(
                "url = 'http://{hooks}/hooks?token={MARK}'\n{private}\n{signed}\nheaders = {{ authorization = 'Bearer {MARK}' }}"
            ),
        ),
        sink(
            "kafka-sasl",
            format!(
                "brokers = '{}'\ntopic = '{}'\nconnect_timeout = '1s'\ndelivery_timeout = '2s'\n\
                 sasl = {{ mechanism = 'plain', user = 'relay', password = {{ env = 'RELAY_SECRET' }} }}\n\
                 client = {{ debug = 'all' }}",
                kafka.url, kafka.name
            ),
        ),
        sink("nats-url", format!("url = 'nats://relay:{MARK}@{stream}'\n{subject}")),
        sink("nats-token", format!("url = 'nats://{stream}'\n{subject}\ntoken = '{MARK}'")),
        sink(
            "nats-user",
            format!("url = 'nats://{stream}'\n{subject}\nuser = 'relay'\npassword = {{ file = '{secret}' }}"),
        ),
        sink("nats-nkey", format!("url = 'nats://{stream}'\n{subject}\nnkey = '{SEED}'")),
        sink(
            "nats-credentials",
            format!("url = 'nats://{stream}'\n{subject}\ncredentials_file = '{credentials}'"),
        ),
        sink("rabbitmq-url", format!("url = 'amqp://relay:{MARK}@{amqp}'\n{queue}")),
        sink(
            "rabbitmq-user",
            format!("url = 'amqp://{amqp}'\n{queue}\nuser = 'relay'\npassword = {{ file = '{secret}' }}"),
        ),
        sink("redis-url", format!("url = 'redis://:{MARK}@{cache}'\n{key}")),
        sink(
            "redis-password",
            format!("url = 'redis://{cache}'\n{key}\nuser = 'relay'\npassword = {{ env = 'RELAY_SECRET' }}"),
        ),
        sink("http-refused", format!("url = 'http://{hooks}/refused?token={MARK}'\n{private}\n{signed}")),
        sink("http-down", format!("url = 'http://127.0.0.1:1/hooks?token={MARK}'\n{private}")),
    ]
}

/// A sink of this name, whose type the name begins with, and a route to it.
fn sink(name: &'static str, options: String) -> (&'static str, String) {
    let kind = name.split('-').next().unwrap();
    let route = format!("[[routes]]\nname = '{name}'\nevent_type = '{name}'\nto = '{name}'\n");
    (name, format!("[sinks.{name}]\ntype = '{kind}'\n{options}\n{route}"))
}

/// What a relay says that is not let in; it is ended after a while if it does not end by itself.
fn ended(tables: &str, directory: &Path) -> Answer {
    let file = directory.join("refused.toml");
    std::fs::write(&file, format!("{tables}[http]\nenabled = false\n")).unwrap();
    let mut program = Command::new("timeout");
    program.args(["5", env!("CARGO_BIN_EXE_pillarbox"), "relay", "--config"]).arg(&file).envs(LOUDLY);
    Answer::of(program.output().unwrap())
}
