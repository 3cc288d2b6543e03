//! What is found out before the first event.

use pillarbox_message::{Finding, Messages};
use pillarbox_rabbitmq::{RabbitMqOptions, RabbitMqSink};
use pillarbox_testkit::port;

use crate::stage::RabbitMqStage;

async fn findings(options: RabbitMqOptions) -> Vec<Finding> {
    RabbitMqSink::new(options).check().await
}

async fn only(options: RabbitMqOptions) -> Finding {
    let mut findings = findings(options).await;
    assert_eq!(findings.len(), 1, "{findings:?}");
    findings.remove(0)
}

fn at(url: &str, routing_key: &str) -> RabbitMqOptions {
    RabbitMqOptions::new(url, routing_key.parse().unwrap(), Messages::from_source("/shop").unwrap()).unwrap()
}

/// K2: a server that has what is needed gives no cause for complaint, and gets no event for the asking.
pub(crate) async fn everything_in_order_has_no_findings(stage: &RabbitMqStage) {
    assert_eq!(findings(stage.binary()).await, []);
    assert_eq!(findings(at(&stage.url, &stage.here())).await, []);

    assert_eq!(stage.drained(&stage.here()).await.len(), 0);
}

/// K2: an exchange that is not there is named.
pub(crate) async fn missing_exchange_is_refused(stage: &RabbitMqStage) {
    let finding = only(stage.binary().exchange("no-such-exchange".parse().unwrap())).await;

    assert!(finding.is_refusal());
    assert!(finding.text.starts_with("exchange `no-such-exchange` cannot be used: NOT_FOUND"), "{finding}");
}

/// K2: a queue that the default exchange would lead to, and that is not there, is named.
pub(crate) async fn missing_queue_is_refused(stage: &RabbitMqStage) {
    let finding = only(at(&stage.url, "no-such-queue")).await;

    assert!(finding.is_refusal());
    assert!(finding.text.starts_with("queue `no-such-queue` cannot be used: NOT_FOUND"), "{finding}");
}

/// K2: a wrong password is told by the user's name.
pub(crate) async fn wrong_password_is_refused_and_not_shown(stage: &RabbitMqStage) {
    let finding = only(stage.binary().user("pillarbox", "hunter2")).await;

    assert!(finding.is_refusal());
    assert!(
        finding.text.contains("refuses user `pillarbox` in virtual host `/`: ACCESS_REFUSED"),
        "{finding}"
    );
    assert!(!finding.text.contains("hunter2"), "{finding}");
}

/// K2: a virtual host that is not there is named.
pub(crate) async fn missing_virtual_host_is_refused(stage: &RabbitMqStage) {
    let finding = only(at(&stage.url.replace("/%2f", "/no-such-host"), "orders")).await;

    assert!(finding.is_refusal());
    assert!(finding.text.contains("in virtual host `no-such-host`: NOT_ALLOWED"), "{finding}");
}

/// T5: the relay starts while the server is down.
pub(crate) async fn absent_server_is_a_warning(_stage: &RabbitMqStage) {
    let port = port::free();

    let finding = only(at(&format!("amqp://127.0.0.1:{port}"), "orders")).await;

    assert!(!finding.is_refusal());
    let start = format!("amqp://127.0.0.1:{port} cannot be reached: ");
    assert!(finding.text.starts_with(&start), "{finding}");
}

/// V6: frames too small for the headers that an event may have are told.
pub(crate) async fn small_frames_are_a_warning(stage: &RabbitMqStage) {
    let finding = only(at(&format!("{}?frame_max=8192", stage.url), &stage.here())).await;

    assert!(!finding.is_refusal());
    assert!(finding.text.starts_with("`frame_max` of RabbitMQ is 8192"), "{finding}");
}
