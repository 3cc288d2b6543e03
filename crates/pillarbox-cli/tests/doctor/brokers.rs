//! What each sink tells of its server: limits below the largest event, promises that are weak, servers that are away.

use std::net::TcpListener;

use crate::relay::{Relay, Running, assert_told, told};

/// T5: a server that is away is a problem that names it, and everything else is examined all the same; no secret is told.
pub(crate) async fn absent_servers_are_problems_and_the_rest_is_examined(relay: &Relay) {
    let sinks = "[sinks.kafka]\ntype = \"kafka\"\nbrokers = \"127.0.0.1:1\"\ntopic = \"orders\"\nconnect_timeout = \"1s\"\n\
        [sinks.nats]\ntype = \"nats\"\nurl = \"nats://shop:seventeen@127.0.0.1:1\"\nsubject = \"orders\"\n\
        [sinks.rabbitmq]\ntype = \"rabbitmq\"\nurl = \"amqp://shop:seventeen@127.0.0.1:1\"\nrouting_key = \"orders\"\n\
        [sinks.redis]\ntype = \"redis\"\nurl = \"redis://:seventeen@127.0.0.1:1\"\nstream = \"orders\"\n\
        [sinks.hooks]\ntype = \"http\"\nurl = \"http://127.0.0.1:1/hooks\"\nallow_private = true\n";

    let (code, report) = relay.examine("binary", sinks);

    assert_eq!(code, Some(1));
    let told = told(&report);
    assert_eq!(told.len(), 5, "{told:#?}");
    assert!(told.iter().all(|line| line.starts_with("problem ")), "{told:#?}");
    assert!(!report.to_string().contains("seventeen"), "{report:#}");
    assert_eq!(report["subjects"][0]["checks"][0]["health"], "ok", "the file itself is right");
    let outbox = report["subjects"][1]["checks"].as_array().unwrap();
    assert!(outbox.iter().all(|check| check["health"] == "ok"), "{outbox:#?}");
}

/// V2: a limit of ours that is smaller than the largest event is told, in structured mode where binary would fit.
pub(crate) async fn receiver_with_a_small_limit_is_told(relay: &Relay) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let sink = format!(
        "[sinks.hooks]\ntype = \"http\"\nurl = \"http://127.0.0.1:{port}/hooks\"\nallow_private = true\n\
         max_body = 1200000\n"
    );

    let (code, binary) = relay.examine("binary", &sink);
    assert_eq!(code, Some(0));
    assert_told(&binary, "ok", "(1,081,344 bytes)");

    let (code, structured) = relay.examine("structured", &sink);
    assert_eq!(code, Some(0));
    assert_told(&structured, "warning", "bodies over 1200000 bytes are rejected (`max_body`)");
}

/// T5, V2: a Redis that forgets, evicts and takes no large values is told, each with its setting.
pub(crate) async fn weak_redis_is_told(relay: &Relay) {
    let weak = "bind 127.0.0.1\nport {port}\ndir {home}\nsave \"\"\nappendonly no\nmaxmemory 100mb\n\
                maxmemory-policy allkeys-lru\nproto-max-bulk-len 1048576\n";
    let server = Running::start(relay, "redis-server", &[], weak);
    let sink = format!(
        "[sinks.redis]\ntype = \"redis\"\nurl = \"redis://127.0.0.1:{}\"\nstream = \"orders\"\n",
        server.port
    );

    let (code, report) = relay.examine("binary", &sink);

    assert_eq!(code, Some(0), "{report:#}");
    for text in
        ["`appendonly` is not `yes`", "`maxmemory-policy allkeys-lru`", "`proto-max-bulk-len`, is 1048576"]
    {
        assert_told(&report, "warning", text);
    }
}

/// M6: settings that a user may not read are unknown, with the right that is missing.
pub(crate) async fn hidden_settings_of_redis_are_unknown(relay: &Relay) {
    let strict = "bind 127.0.0.1\nport {port}\ndir {home}\nsave \"\"\nappendonly yes\nappendfsync always\n\
                  user default on nopass ~* +@all -config\n";
    let server = Running::start(relay, "redis-server", &[], strict);
    let sink = format!(
        "[sinks.redis]\ntype = \"redis\"\nurl = \"redis://127.0.0.1:{}\"\nstream = \"orders\"\n",
        server.port
    );

    let (code, report) = relay.examine("binary", &sink);

    assert_eq!(code, Some(0), "{report:#}");
    assert_told(&report, "unknown", "allow the user `CONFIG GET`");
}

/// V2: a NATS that takes no large messages is told; the stream that is missing too.
pub(crate) async fn small_payloads_of_nats_are_told(relay: &Relay) {
    let small =
        "listen: \"127.0.0.1:{port}\"\nmax_payload: 100000\njetstream { store_dir: \"{home}/data\" }\n";
    let server = Running::start(relay, "nats-server", &["-c"], small);
    let sink = format!(
        "[sinks.nats]\ntype = \"nats\"\nurl = \"nats://127.0.0.1:{}\"\nsubject = \"orders\"\n",
        server.port
    );

    let (code, report) = relay.examine("structured", &sink);

    assert_eq!(code, Some(1), "{report:#}");
    assert_told(&report, "warning", "`max_payload`, is 100000 bytes; the largest events come to 14");
    assert_told(&report, "problem", "no stream takes `orders`");
}

/// V2: what Kafka's brokers take by default is less than the largest event; the topic that is missing is told too.
pub(crate) async fn limits_of_kafka_are_told(relay: &Relay) {
    let topic = pillarbox_testkit::servers::unique_name();
    let sink = format!("[sinks.kafka]\ntype = \"kafka\"\nbrokers = \"{}\"\ntopic = \"{topic}\"\n", relay.url);

    let (code, report) = relay.examine("structured", &sink);

    assert_eq!(code, Some(0), "{report:#}");
    assert_told(&report, "warning", "does not exist; the first event creates it");
    assert_told(&report, "warning", "events that take more than 1048588 bytes are refused for good");
}

/// K2: a queue that is not there is a problem.
pub(crate) async fn missing_queue_of_rabbitmq_is_a_problem(relay: &Relay) {
    let queue = pillarbox_testkit::servers::unique_name();
    let sink = format!(
        "[sinks.rabbitmq]\ntype = \"rabbitmq\"\nurl = \"{}\"\nrouting_key = \"{queue}\"\n",
        relay.url
    );

    let (code, report) = relay.examine("binary", &sink);

    assert_eq!(code, Some(1), "{report:#}");
    assert_told(&report, "problem", &format!("queue `{queue}` cannot be used"));
    let password =
        relay.url.split_once("://").unwrap().1.split_once('@').unwrap().0.split_once(':').unwrap().1;
    assert!(!report.to_string().contains(password), "no password is told");
}
