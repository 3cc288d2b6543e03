//! What can be known of the server before it is used.

use lapin::types::ShortString;
use pillarbox::Template;
use pillarbox_message::Finding;

use crate::RabbitMqSink;
use crate::fault::{BLOCKED, Fault, FaultKind, no_exchange};
use crate::link::Link;

/// What headers, context and attributes of an event may come to, each with its overhead in the frame.
const LARGEST_HEADERS: u32 = 48 * 1024;

impl RabbitMqSink {
    /// Looks whether the server can be reached and lets us in, and whether the exchange is there; for the default
    /// exchange and a constant routing key, whether that queue is there. Sends no event.
    ///
    /// What only an operator can cure is a refusal, what time can cure a warning. AMQP does not tell whether an exchange
    /// is durable, which queues are bound to it, or how large a message may be.
    pub async fn check(&self) -> Vec<Finding> {
        let link = match self.links.current().await {
            Ok(link) => link,
            Err(fault) => return vec![finding(&fault, fault.text.clone())],
        };
        if link.is_blocked() {
            // It reads nothing from us, so that no question would be answered.
            return vec![Finding::unreachable(BLOCKED)];
        }
        let mut findings = Vec::new();
        let constant = |template: &Template| ShortString::try_new(template.as_constant()?).ok();
        match &self.options.exchange {
            Some(exchange) => {
                if let Some(exchange) = constant(exchange) {
                    findings.extend(exchange_findings(&link, &exchange).await);
                }
            }
            None => {
                if let Some(queue) = constant(&self.options.routing_key) {
                    findings.extend(queue_findings(&link, &queue).await);
                }
            }
        }
        if link.frame_max() < LARGEST_HEADERS {
            findings.push(Finding::warning(format!(
                "`frame_max` of RabbitMQ is {}, so that events with large headers are refused; at {LARGEST_HEADERS} none is",
                link.frame_max()
            )));
        }
        findings
    }
}

async fn exchange_findings(link: &Link, exchange: &ShortString) -> Option<Finding> {
    let fault = link.find_exchange(exchange).await.err()?;
    Some(finding(&fault, no_exchange(exchange.as_str(), &fault.text)))
}

async fn queue_findings(link: &Link, queue: &ShortString) -> Option<Finding> {
    let fault = link.find_queue(queue).await.err()?;
    Some(finding(&fault, format!("queue `{queue}` cannot be used: {}; declare it, durable", fault.text)))
}

fn finding(fault: &Fault, text: String) -> Finding {
    match fault.kind {
        FaultKind::Away => Finding::unreachable(text),
        FaultKind::Locked | FaultKind::Missing | FaultKind::Refused => Finding::refusal(text),
    }
}
