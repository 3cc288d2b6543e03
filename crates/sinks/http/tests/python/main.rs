//! What the sink sends, read by libraries that are not ours: `standardwebhooks` and `cloudevents` in Python.

#![expect(clippy::unwrap_used, reason = "tests panic when something is wrong")]

#[path = "../http/receiver.rs"]
#[expect(dead_code, reason = "the other tests use all of it")]
mod receiver;

use std::io::Write;
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use pillarbox_testkit::servers::{Fresh, Server, Suite, required};
use pillarbox_testkit::trials;
use receiver::{Received, Receiver};
use serde_json::{Value, json};

const PYTHON: Server = required("python", "PILLARBOX_TEST_PYTHON");

fn main() -> ExitCode {
    let mut suite = Suite::from_args();
    trials!(suite, PYTHON, Reader;
    readers {
        signature_is_accepted
        each_secret_is_accepted_while_they_change
        signature_of_another_secret_or_body_is_refused
        binary_event_is_read
        structured_event_is_read
        bytes_are_read_in_both_modes
    });
    suite.run()
}

/// A receiver, and a Python that reads what it got.
struct Reader {
    python: String,
    receiver: Receiver,
}

impl Fresh for Reader {
    async fn fresh(python: &str) -> Self {
        Self { python: python.to_owned(), receiver: Receiver::accepting().await }
    }

    async fn clean(self) {}
}

impl Reader {
    /// What Python makes of a request, or what it says against it.
    fn read(&self, received: &Received, secrets: &[&str]) -> Result<Value, String> {
        let headers: serde_json::Map<String, Value> = received
            .headers
            .iter()
            .map(|(name, value)| (name.to_string(), value.to_str().unwrap().into()))
            .collect();
        let request =
            json!({ "headers": headers, "body": STANDARD.encode(&received.body), "secrets": secrets });
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/python/read_back.py");
        let mut python = Command::new(&self.python)
            .arg(script)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        python.stdin.take().unwrap().write_all(request.to_string().as_bytes()).unwrap();
        let output = python.wait_with_output().unwrap();
        if output.status.success() {
            Ok(serde_json::from_slice(&output.stdout).unwrap())
        } else {
            Err(String::from_utf8_lossy(&output.stderr).into_owned())
        }
    }

    /// Publishes an event, and gives what arrived.
    async fn sent(
        &self,
        event: pillarbox::Event,
        messages: pillarbox_message::Messages,
        options: pillarbox_http::HttpOptions,
    ) -> Received {
        let sink: Arc<dyn pillarbox::Sink> =
            Arc::new(receiver::sink(self.receiver.address(), messages, options));
        assert_eq!(pillarbox_testkit::sinks::publish(&sink, &[event]).await, [Ok(())]);
        self.receiver.received().pop().unwrap()
    }
}

mod readers {
    use pillarbox::{Event, EventBuilder};
    use pillarbox_http::HttpOptions;
    use pillarbox_message::{Messages, Mode};
    use serde_json::json;

    use super::Reader;

    const OLD: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    const NEW: &str = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";

    fn order_placed() -> EventBuilder {
        Event::builder("OrderPlaced").id("01J").aggregate("Order", "order-17").json_text(r#"{"total": 4200}"#)
    }

    fn messages() -> Messages {
        Messages::from_source("/shop").unwrap()
    }

    fn signed(secrets: &[&str]) -> HttpOptions {
        secrets.iter().fold(HttpOptions::new(), |options, secret| options.sign_with(secret.parse().unwrap()))
    }

    /// K2: a receiver that knows the standard accepts the signature, at the time at which it arrives.
    pub(super) async fn signature_is_accepted(reader: &Reader) {
        let received = reader.sent(order_placed().build().unwrap(), messages(), signed(&[NEW])).await;

        let read = reader.read(&received, &[NEW]).unwrap();

        assert_eq!(read["data"], json!({"total": 4200}));
        assert_eq!(received.header("webhook-id"), "01J");
    }

    /// K2: while secrets change, receivers with the old one and with the new one both accept.
    pub(super) async fn each_secret_is_accepted_while_they_change(reader: &Reader) {
        let received = reader.sent(order_placed().build().unwrap(), messages(), signed(&[NEW, OLD])).await;

        reader.read(&received, &[OLD, NEW]).unwrap();
    }

    /// K2: the signature is worth something.
    pub(super) async fn signature_of_another_secret_or_body_is_refused(reader: &Reader) {
        let mut received = reader.sent(order_placed().build().unwrap(), messages(), signed(&[NEW])).await;

        let other_secret = reader.read(&received, &[OLD]).unwrap_err();
        received.body[10] ^= 1;
        let other_body = reader.read(&received, &[NEW]).unwrap_err();

        for error in [other_secret, other_body] {
            assert!(error.contains("No matching signature"), "{error}");
        }
    }

    /// K2: in binary mode attributes arrive whatever they contain, and so does the payload.
    pub(super) async fn binary_event_is_read(reader: &Reader) {
        let event = order_placed().tenant("Ärger & Söhne \"100%\" 漢").build().unwrap();
        let time = event.occurred_at().to_string();
        let received = reader.sent(event, messages(), HttpOptions::new()).await;

        let read = reader.read(&received, &[]).unwrap();

        let attributes = &read["attributes"];
        for (name, value) in [
            ("specversion", "1.0"),
            ("id", "01J"),
            ("source", "/shop"),
            ("type", "OrderPlaced"),
            ("subject", "order-17"),
            ("datacontenttype", "application/json"),
            ("partitionkey", "order-17"),
            ("aggregatetype", "Order"),
            ("tenantid", "Ärger & Söhne \"100%\" 漢"),
        ] {
            assert_eq!(attributes[name], value, "{name}");
        }
        let date = &time[..10];
        assert!(attributes["time"].as_str().unwrap().starts_with(date), "{attributes}");
        assert_eq!(read["data"], json!({"total": 4200}));
    }

    /// K2: in structured mode the document says the same, and it can be signed as well.
    pub(super) async fn structured_event_is_read(reader: &Reader) {
        let messages = messages().mode(Mode::Structured);
        let event = order_placed().tenant("Ärger & Söhne").build().unwrap();
        let received = reader.sent(event, messages, signed(&[NEW])).await;

        let read = reader.read(&received, &[NEW]).unwrap();

        for (name, value) in [("id", "01J"), ("type", "OrderPlaced"), ("tenantid", "Ärger & Söhne")] {
            assert_eq!(read["attributes"][name], value, "{name}");
        }
        assert_eq!(read["data"], json!({"total": 4200}));
    }

    /// S11: bytes arrive as bytes in both modes.
    pub(super) async fn bytes_are_read_in_both_modes(reader: &Reader) {
        for mode in [Mode::Binary, Mode::Structured] {
            let scan = Event::builder("Scan").bytes(vec![0xff, 0, 1]).build().unwrap();
            let received = reader.sent(scan, messages().mode(mode), HttpOptions::new()).await;

            let read = reader.read(&received, &[]).unwrap();

            assert_eq!(read["data"], "ff0001", "{mode:?}");
        }
    }
}
