//! Names and passwords.

use std::time::Duration;

use pillarbox::Event;
use pillarbox_kafka::{KafkaOptions, Sasl};
use pillarbox_testkit::sinks::{SinkStage, publish};

use crate::stage::{KafkaStage, sink};

fn order() -> Event {
    Event::builder("OrderPlaced").id("01J").json_text("{}").build().unwrap()
}

/// Options for the listener that asks for a name and a password.
fn options(stage: &KafkaStage, password: &str) -> KafkaOptions {
    stage.options_at(stage.port(4)).sasl(Sasl::plain("pillarbox", password))
}

/// A sink that shows its password is let in.
pub(crate) async fn password_is_shown(stage: &KafkaStage) {
    let sink = sink(options(stage, "pillarbox"));

    assert_eq!(publish(&sink, &[order()]).await, [Ok(())]);

    assert_eq!(stage.arrived().await.len(), 1);
}

/// T5: a wrong password says nothing about events, is told as what it is, and is not told itself.
pub(crate) async fn wrong_password_is_told(stage: &KafkaStage) {
    let sink = sink(options(stage, "hunter2").connect_timeout(Duration::from_secs(3)));

    let answers = publish(&sink, &[order()]).await;

    let error = answers[0].as_ref().unwrap_err();
    assert!(error.is_unavailable(), "{error:?}");
    assert!(error.to_string().to_lowercase().contains("authentication"), "{error}");
    assert!(!error.to_string().contains("hunter2"), "{error}");
}
