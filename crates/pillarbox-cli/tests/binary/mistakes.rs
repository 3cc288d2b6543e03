//! Whatever is wrong with the file of a relay is answered with file, line, key and remedy.

#![expect(clippy::unwrap_used, reason = "what the tests stand on may fail as loudly as they do")]

use crate::relay::configure;
use crate::shop::{Answer, Shop, pillarbox};

/// A file that is right, but for its database and the secrets that are to be found.
const RIGHT: &str = r#"[outbox]
poll_every = "200ms"
[outbox.store]
url = "shop.db"
[messages]
source = "/shop/orders"
[sinks.console]
type = "stdout"
[[routes]]
name = "orders"
event_type = "Order*"
to = "console"
[http]
listen = "127.0.0.1:0"
[log]
level = "info"
"#;

/// A mistake: what stands in the right file, what in its place, and the answer behind the name of the file.
type Mistake = (&'static str, &'static str, &'static str);

/// Tables, and what is missing or twice in them.
const TABLES: [Mistake; 16] = [
    ("[messages]", "[mesages]", ", line 5, column 2: unknown key `mesages`; did you mean `messages`?"),
    (
        "poll_every =",
        "pol_every =",
        ", line 2, column 1: unknown option `pol_every`; did you mean `poll_every`?",
    ),
    ("url =", "ulr =", ", line 4, column 1: unknown option `store.ulr`; did you mean `store.url`?"),
    (
        "source = \"/shop/orders\"",
        "source = \"/shop/orders\"\nmod = \"binary\"",
        ", line 7, column 1: unknown key `mod` in `messages`; did you mean `mode`?",
    ),
    (
        "type = \"stdout\"",
        "type = \"stdout\"\ntopic = \"orders\"",
        ", line 9, column 1: unknown key `topic` in `sinks.console`",
    ),
    (
        "event_type =",
        "evnt_type =",
        ", line 11, column 1: unknown key `evnt_type` in `routes`; did you mean `event_type`?",
    ),
    ("listen =", "lissen =", ", line 14, column 1: unknown key `lissen` in `http`; did you mean `listen`?"),
    ("level =", "levle =", ", line 16, column 1: unknown key `levle` in `log`; did you mean `level`?"),
    ("source = \"/shop/orders\"", "", ", line 5, column 1: `source` is missing in `messages`"),
    (
        "type = \"stdout\"",
        "",
        ", line 7, column 1: `type` is missing in `sinks.console`: what it is, such as `kafka`",
    ),
    ("name = \"orders\"", "", "`name` is missing in `routes`"),
    ("to = \"console\"", "", "`to` is missing in `routes`"),
    (
        "url = \"shop.db\"",
        "",
        ", line 1, column 1: outbox `outbox`: no database is configured; set `store.url`",
    ),
    ("[[routes]]", "[sinks.console]\ntype = \"stdout\"\n[[routes]]", "line 9"),
    (
        "[http]",
        "[[routes]]\nname = \"orders\"\nto = \"console\"\n[http]",
        "line 14, column 8: two routes are called `orders`; each needs its own name",
    ),
    (
        "[http]",
        "[outboxes.billing.store]\nurl = \"b.db\"\n[http]",
        ": both `[outbox]` and `[outboxes]` are there; give every outbox a name",
    ),
];

/// Values that cannot be used.
const VALUES: [Mistake; 22] = [
    ("\"shop.db\"", "\"postgers://shop@localhost/shop\"", ", line 4, column 7: outbox `outbox`: "),
    (
        "to = \"console\"",
        "to = { sink = \"console\", address = \"https://shop.example/17?of={nobody}\" }",
        "sink `console`: `{nobody}` in `https://shop.example/…` is not known; known are `{event_id}`",
    ),
    ("\"200ms\"", "200", ", line 2, column 14: `poll_every` is 200: a duration needs its unit"),
    ("\"200ms\"", "\"soon\"", ", line 2, column 14: `poll_every` is \"soon\": "),
    (
        "\"/shop/orders\"",
        "17",
        ", line 6, column 10: `source` in `messages`: invalid type: integer `17`, expected a string",
    ),
    ("\"/shop/orders\"", "\"my shop\"", ", line 6, column 10: `my shop` is no source of events"),
    ("\"stdout\"", "\"stdin\"", ": sink `console`: `stdin` is no type of a sink; known are `http`, `kafka`"),
    (
        "to = \"console\"",
        "to = \"consle\"",
        ", line 12, column 6: route `orders` names sink `consle`, which is not there; did you mean `console`?",
    ),
    (
        "to = \"console\"",
        "to = []",
        ", line 12, column 6: route `orders` names no sink; say where its events go",
    ),
    ("to = \"console\"", "to = 17", ", line 12, column 6: `to` in `routes`: expected the name of a sink"),
    (
        "to = \"console\"",
        "to = [\"console\", \"console\"]",
        ", line 12, column 6: route `orders` names sink `console` twice",
    ),
    (
        "to = \"console\"",
        "to = { sink = \"console\", address = \"{kye}\" }",
        ", line 12, column 6: route `orders`, sink `console`: ",
    ),
    (
        "\"Order*\"",
        "17",
        ", line 11, column 14: `event_type` in `routes`: expected a text, or a list of texts",
    ),
    (
        "name = \"orders\"",
        "name = \"all orders\"",
        ", line 10, column 8: `all orders` is no name of a sink or route; use 1 to 64 letters",
    ),
    (
        "\"127.0.0.1:0\"",
        "\"localhost\"",
        ", line 14, column 10: `listen` in `http`: `localhost` is no address to listen on; write an IP address and a port",
    ),
    (
        "\"info\"",
        "\"inof\"",
        ", line 16, column 9: `level` in `log`: `inof` is no level; did you mean `info`?",
    ),
    (
        "poll_every = \"200ms\"",
        "ordered = true\nmode = \"claims\"",
        ", line 3, column 8: outbox `outbox`: `ordered` is set: the mode `claims` keeps no order",
    ),
    (
        "poll_every = \"200ms\"",
        "retry = { max_attempts = 5, max_retries = 5 }",
        "line 2, column 43: `retry.max_retries` is 5: `retry.max_attempts` is set too, in line 2",
    ),
    (
        "url = \"shop.db\"",
        "url = \"shop.db\"\nurl_file = \"/run/secrets/db\"",
        "line 5, column 12: `store.url_file` is \"/run/secrets/db\": `store.url` is set too, in line 4",
    ),
    (
        "\"shop.db\"",
        "\"postgres://shop@localhost:port/shop\"",
        ", line 4, column 7: outbox `outbox`: `store.url`: the URL of the database cannot be read: the port is no number up to \
         65535; write it as `postgres://user:password@host:5432/database`",
    ),
    (
        "url = \"shop.db\"",
        "url_file = \"/nowhere\"",
        ", line 4, column 12: outbox `outbox`: `store.url_file`: `/nowhere` cannot be read: No such file or directory (os error \
         2); correct the path",
    ),
    (
        "url = \"shop.db\"",
        "url_file = \"/dev/null\"",
        ", line 4, column 12: outbox `outbox`: `store.url_file`: `/dev/null` is empty; write the value into it",
    ),
];

/// Sinks: what they are, their options, and the answer behind the name of the file.
const SINKS: [Mistake; 6] = [
    (
        "rabbitmq",
        "url = \"amqp:/rabbit.example\"\nrouting_key = \"orders\"",
        ", line 9, column 7: sink `console`: `url`: it has a `/`, but no `://`; write it as \
         `amqp://user:password@host:5672/vhost`",
    ),
    (
        "rabbitmq",
        "url = \"rabbit.example\"\nrouting_key = \"orders\"",
        ", line 9, column 7: sink `console`: `url`: the URL of RabbitMQ is not understood; write `amqp://",
    ),
    (
        "nats",
        "url = \"nats//nats.example\"\nsubject = \"orders\"",
        ", line 9, column 7: sink `console`: `url`: it has a `/`, but no `://`; write it as `nats://user:password@host:4222`",
    ),
    (
        "nats",
        "url = \"nats://nats-1.example,nats:/nats-2.example\"\nsubject = \"orders\"",
        ", line 9, column 7: sink `console`: `url`: it has a `/`, but no `://`",
    ),
    (
        "nats",
        "url = \"nats://nats.example\"\nsubject = \"orders\"\nnkey = \"SUAAOCAJBIFQYDIO\"",
        ", line 11, column 8: sink `console`: `nkey`: this is no seed of a user's nkey; give all 58 letters",
    ),
    (
        "redis",
        "url = \"redis:/redis.example\"\nstream = \"orders\"",
        ", line 9, column 7: sink `console`: `url`: the URL of Redis is not understood; write `redis://",
    ),
];

/// M4: every mistake is told with its place and a remedy, by `config check` and by the relay, which does not start.
#[test]
fn every_mistake_is_answered() {
    let shop = Shop::with_events(&[]);
    let right = |text: &str| {
        let config = configure(&shop, &text.replace("shop.db", &shop.db()));
        Answer::of(pillarbox().args(["config", "check", "--config", &config]).output().unwrap())
    };
    assert_eq!(right(RIGHT).code, Some(0), "{}", right(RIGHT).err);

    for (from, to, expected) in TABLES.iter().chain(&VALUES) {
        assert_refused(&shop, from, to, expected);
    }
}

/// K3, M4: a sink that was left out of the program is answered with the feature to switch on.
#[test]
fn sink_that_was_left_out_names_its_feature() {
    let shop = Shop::with_events(&[]);
    let sinks = built_with();

    for kind in ["http", "kafka", "nats", "rabbitmq", "redis"] {
        if sinks.contains(kind) {
            continue;
        }
        let expected = format!(
            "sink `console`: this program was built without `{kind}`; build it with `cargo build --release -p pillarbox-cli \
             --features {kind}`"
        );
        assert_refused(&shop, "\"stdout\"", &format!("\"{kind}\""), &expected);
    }
}

/// M4: an address of a server that is none, and a key that opens nothing, are answered before anybody connects.
#[test]
fn servers_that_are_nowhere_are_refused() {
    let shop = Shop::with_events(&[]);
    let sinks = built_with();

    for (kind, options, expected) in SINKS {
        let expected = if sinks.contains(kind) { expected } else { "this program was built without" };
        let sink = format!("type = \"{kind}\"\n{options}");
        assert_refused(&shop, "type = \"stdout\"", &sink, expected);
    }
}

/// M4: a database that a variable names is answered with the variable.
#[test]
fn variable_that_leads_nowhere_is_named() {
    let shop = Shop::with_events(&[]);
    let config = configure(&shop, RIGHT);
    let mut check = pillarbox();
    check.args(["config", "check", "--config", &config]).env("PILLARBOX_STORE_URL", "mysql:shop");

    let answer = Answer::of(check.output().unwrap());

    assert_eq!(answer.code, Some(2));
    let expected = "pillarbox.toml: outbox `outbox`: the variable `PILLARBOX_STORE_URL`, `store.url`: the URL of the database \
                    cannot be read: it has no `://`; write it as `mysql://user:password@host:3306/database`";
    assert!(answer.err.contains(expected), "{}", answer.err);
}

/// M4: a secret that is not where it should be is named by its option, and by where it was looked for.
#[test]
fn secret_that_is_missing_is_named() {
    let shop = Shop::with_events(&[]);
    if !built_with().contains("http") {
        return assert_refused(&shop, "\"stdout\"", "\"http\"", "built without `http`");
    }
    for (secret, expected) in [
        ("{ env = \"NO_SUCH_SECRET\" }", "`headers.authorization`: the variable `NO_SUCH_SECRET` is not set"),
        ("{ file = \"/nowhere\" }", "`headers.authorization`: `/nowhere` cannot be read: No such file"),
        (
            "{ file = \"/dev/null\" }",
            "`headers.authorization`: `/dev/null` is empty; write the value into it",
        ),
        (
            "{ env = \"PATH\", file = \"/dev/null\" }",
            "`headers.authorization`: both `env` and `file` say where it is; give one of them",
        ),
        ("{ evn = \"NO_SUCH_SECRET\" }", "expected `{ env = \"NAME\" }`, `{ file = \"PATH\" }` or a text"),
    ] {
        let hooks = format!(
            "type = \"http\"\nurl = \"https://shop.example\"\nheaders = {{ authorization = {secret} }}"
        );

        assert_refused(&shop, "type = \"stdout\"", &hooks, expected);
        assert_refused(&shop, "type = \"stdout\"", &hooks, ", line 10, column ");
    }
}

/// M4: a system without certificates is named as the reason why there is no webhook.
#[test]
fn system_without_certificates_is_named() {
    let shop = Shop::with_events(&[]);
    let hook = "type = \"http\"\nurl = \"https://shop.example\"";
    if !built_with().contains("http") {
        return assert_refused(&shop, "type = \"stdout\"", hook, "built without `http`");
    }
    let text = RIGHT.replace("type = \"stdout\"", hook).replace("shop.db", &shop.db());
    let config = configure(&shop, &text);
    let mut check = pillarbox();
    check.args(["config", "check", "--config", &config]);
    check.env("SSL_CERT_FILE", "/dev/null").env("SSL_CERT_DIR", shop.directory().join("none"));

    let answer = Answer::of(check.output().unwrap());

    assert_eq!(answer.code, Some(2));
    assert!(answer.err.contains("sink `console`: the client could not be set up: "), "{}", answer.err);
    assert!(answer.err.contains("No CA certificates were loaded"), "{}", answer.err);
}

/// M4: a file that is not there is answered with where to get one.
#[test]
fn missing_file_is_answered() {
    let shop = Shop::empty();
    let file = shop.directory().join("nowhere.toml");

    let answer = Answer::of(pillarbox().args(["relay", "--config"]).arg(&file).output().unwrap());

    assert_eq!(answer.code, Some(2));
    let expected = "nowhere.toml: cannot be read: No such file or directory (os error 2); `pillarbox config --print-defaults` \
                    prints one";
    assert!(answer.err.contains(expected), "{}", answer.err);
}

/// The sinks that the program has.
fn built_with() -> String {
    let version = Answer::of(pillarbox().arg("--version").output().unwrap()).out;
    version.lines().find(|line| line.starts_with("sinks: ")).unwrap().to_owned()
}

fn assert_refused(shop: &Shop, from: &str, to: &str, expected: &str) {
    let text = RIGHT.replacen(from, to, 1);
    assert_ne!(text, RIGHT, "{from}");
    let config = configure(shop, &text.replace("shop.db", &shop.db()));
    for command in [&["config", "check"][..], &["relay"]] {
        let answer = Answer::of(pillarbox().args(command).args(["--config", &config]).output().unwrap());

        assert_eq!(answer.code, Some(2), "{command:?} {to}: {}", answer.err);
        assert!(answer.err.contains(&config), "{}", answer.err);
        assert!(answer.err.contains(expected), "{expected}\nin {}", answer.err);
    }
}
