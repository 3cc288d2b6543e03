//! A look at a topic by another client than the sink's: kcat.

use std::collections::BTreeMap;

use pillarbox_testkit::sinks::Arrived;
use serde_json::Value;
use tokio::process::Command;

/// Everything in a topic, the partitions one after the other.
pub(crate) async fn read(brokers: &str, topic: &str) -> Vec<Arrived> {
    // Headers are exact in JSON only, and bodies only outside of it.
    let documents = kcat(brokers, topic, &["-J"]).await;
    let documents = String::from_utf8_lossy(&documents).into_owned();
    let mut headers: BTreeMap<(i64, i64), Arrived> = documents.lines().map(headers).collect();
    let bodies = kcat(brokers, topic, &["-f", "%p %o %K %S\n%k%s"]).await;
    let mut rest = bodies.as_slice();
    let mut arrived = Vec::new();
    while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
        let sizes: Vec<i64> =
            std::str::from_utf8(&rest[..end]).unwrap().split(' ').map(|size| size.parse().unwrap()).collect();
        let [partition, offset, key, body] = sizes.as_slice() else { panic!("{sizes:?}") };
        let (key_end, no_key) = (end + 1 + usize::try_from(*key).unwrap_or(0), *key < 0);
        let body_end = key_end + usize::try_from(*body).expect("a body, not a tombstone");
        let mut message = headers.remove(&(*partition, *offset)).unwrap();
        message.key = (!no_key).then(|| String::from_utf8(rest[end + 1..key_end].to_vec()).unwrap());
        message.body = rest[key_end..body_end].to_vec();
        arrived.push(message);
        rest = &rest[body_end..];
    }
    arrived
}

/// The partition of each event in a topic, by its id.
#[allow(dead_code, reason = "not every test binary asks for it")]
pub(crate) async fn partitions(brokers: &str, topic: &str) -> BTreeMap<String, i64> {
    let documents = kcat(brokers, topic, &["-J"]).await;
    let documents = String::from_utf8_lossy(&documents).into_owned();
    documents.lines().map(headers).map(|((partition, _), message)| (message.event_id, partition)).collect()
}

/// Place and headers of a message.
fn headers(document: &str) -> ((i64, i64), Arrived) {
    let document: Value = serde_json::from_str(document).unwrap();
    let mut message = Arrived::default();
    let pairs: Vec<&str> =
        document["headers"].as_array().unwrap().iter().map(|text| text.as_str().unwrap()).collect();
    for pair in pairs.chunks(2) {
        let (name, value) = (pair[0].to_owned(), pair[1].to_owned());
        match (name.as_str(), name.strip_prefix("ce_")) {
            ("event-id", _) => message.event_id = value,
            ("content-type", _) => message.content_type = value,
            (_, Some(attribute)) => drop(message.attributes.insert(attribute.to_owned(), value)),
            _ => drop(message.headers.insert(name, value)),
        }
    }
    let number = |name: &str| document[name].as_i64().unwrap();
    ((number("partition"), number("offset")), message)
}

async fn kcat(brokers: &str, topic: &str, format: &[&str]) -> Vec<u8> {
    let mut kcat = Command::new("kcat");
    kcat.args(["-C", "-b", brokers, "-t", topic, "-o", "beginning", "-e", "-q"]).args(format);
    let output = kcat.output().await.expect("`kcat` runs; it is the Debian package `kcat`");
    assert!(output.status.success(), "kcat: {}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}
