use super::*;
use crate::KafkaSink;

fn options() -> KafkaOptions {
    KafkaOptions::new("127.0.0.1:9092", "orders".parse().unwrap(), Messages::from_source("/shop").unwrap())
}

fn refusal(options: KafkaOptions) -> String {
    KafkaSink::new(options).err().unwrap().to_string()
}

/// K1: nobody can make the sink promise less.
#[test]
fn what_would_weaken_the_promise_is_refused() {
    for (name, value) in [
        ("acks", "1"),
        ("request.required.acks", "0"),
        ("enable.idempotence", "false"),
        ("retries", "0"),
        ("delivery.report.only.error", "true"),
        ("transactional.id", "shop"),
        ("message.timeout.ms", "0"),
    ] {
        let error = refusal(options().client_option(name, value));

        assert!(error.starts_with(&format!("the client option `{name}` cannot be set: ")), "{error}");
    }
}

/// K1: whatever else the client knows can be set, and wins over what the sink would choose.
#[test]
fn other_client_options_are_passed_on() {
    let options =
        options().client_option("compression.type", "lz4").client_option("partitioner", "consistent");

    let config = options.client_config().unwrap();

    assert_eq!(
        (config.get("compression.type"), config.get("partitioner")),
        (Some("lz4"), Some("consistent"))
    );
    assert_eq!((config.get("acks"), config.get("enable.idempotence")), (Some("all"), Some("true")));
    assert!(KafkaSink::new(options).is_ok());
}

/// K1: an option that the client does not know, or a value that it does not take, is told when the sink is made.
#[test]
fn unknown_client_options_are_told() {
    let error = refusal(options().client_option("compresion.type", "lz4"));
    assert!(error.contains(r#"No such configuration property: "compresion.type""#), "{error}");

    let error = refusal(options().client_option("compression.type", "lzw"));
    assert!(error.contains(r#"Invalid value "lzw""#), "{error}");
}

/// K1: values outside of their limits are refused, and the text has the limits.
#[test]
fn values_outside_of_their_limits_are_refused() {
    let zero = Duration::ZERO;
    for (options, text) in [
        (options().delivery_timeout(zero), "`delivery_timeout` is 0ns, and must be between 1s and 900s"),
        (options().connect_timeout(zero), "`connect_timeout` is 0ns, and must be between 1s and 900s"),
        (
            options().linger(Duration::from_secs(11)),
            "`linger` is 11s, and must be at most half of `delivery_timeout`, 10s",
        ),
        (options().batch_bytes(10), "`batch_bytes` is 10, and must be between 1000 and 1000000000"),
    ] {
        assert_eq!(refusal(options), text);
    }
}

/// K1: the limits themselves are values that the client takes.
#[test]
fn values_at_their_limits_are_taken() {
    for limit in [SHORTEST, LONGEST] {
        let options = options().delivery_timeout(limit).connect_timeout(limit).linger(limit / 2);

        assert_eq!(KafkaSink::new(options).err(), None, "{limit:?}");
    }
}

/// K1: a sink without a broker or with an impossible topic is refused when it is made.
#[test]
fn impossible_destination_is_refused() {
    let messages = Messages::from_source("/shop").unwrap();
    let to = |brokers: &str, topic: &str| {
        refusal(KafkaOptions::new(brokers, topic.parse().unwrap(), messages.clone()))
    };

    assert!(to(" , ", "orders").starts_with("no broker is named"));
    assert!(to("127.0.0.1:9092", "orders/eu").starts_with("`orders/eu` is no topic of Kafka"));
}

/// What needs OpenSSL is answered with the feature to switch on, unless it is on.
#[test]
fn missing_feature_is_named() {
    let sinks = [
        ("TLS", options().tls(Tls::new())),
        ("SCRAM-SHA-256", options().sasl(Sasl::scram_sha_256("shop", "hunter2"))),
        ("SCRAM-SHA-512", options().sasl(Sasl::scram_sha_512("shop", "hunter2"))),
        ("the client option `ssl.key.password`", options().client_option("ssl.key.password", "hunter2")),
    ];
    let text = "needs the feature `tls` of `pillarbox-kafka`, which this build does not have";
    for (what, options) in sinks {
        let refusal = KafkaSink::new(options).err().map(|error| error.to_string());

        assert_eq!(refusal, (!cfg!(feature = "tls")).then(|| format!("{what} {text}")));
    }
    assert!(KafkaSink::new(options().sasl(Sasl::plain("shop", "hunter2"))).is_ok());
}

/// Passwords never appear in what is logged.
#[test]
fn secrets_are_not_shown() {
    let options = options().sasl(Sasl::plain("shop", "hunter2")).client_option("ssl.key.password", "hunter3");

    let shown = format!("{options:?}");

    assert!(shown.contains("ssl.key.password") && shown.contains("shop"), "{shown}");
    assert!(!shown.contains("hunter"), "{shown}");
}
