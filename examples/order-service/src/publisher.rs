//! From the table to Kafka: how often, how many, how long it is tried, how long what was sent is kept.

use std::time::Duration;

use anyhow::bail;
use pillarbox::{ConfigError, Outbox, Retry};
use pillarbox_kafka::{KafkaOptions, KafkaSink};
use pillarbox_message::Messages;
use pillarbox_postgres::PostgresStore;

use crate::options::Options;

const POLL_EVERY: Duration = Duration::from_secs(5);
const BATCH: usize = 10;
const KEEP_SENT_FOR: Duration = Duration::from_secs(30 * 24 * 3_600);

/// Waits for 100, 200, 400, 800 and 1600 ms; what has failed then, too, is FAILED.
fn retry() -> Retry {
    Retry::exponential().initial(Duration::from_millis(100)).max_retries(5)
}

/// A sink that is acknowledged by all in-sync replicas, and what of the cluster's settings weakens that in the log.
pub(crate) async fn kafka(options: &Options) -> anyhow::Result<KafkaSink> {
    let messages = Messages::from_source("/shop/orders")?;
    let kafka = KafkaOptions::new(&options.kafka_brokers, options.topic.parse()?, messages)
        .client_id("order-service")
        // A misspelt topic is an error, and not a new topic; that it is not there is believed after a second.
        .client_option("allow.auto.create.topics", "false")
        .client_option("topic.metadata.propagation.max.ms", "1000");
    let sink = KafkaSink::new(kafka)?;
    for finding in sink.check().await {
        if finding.is_refusal() {
            bail!("{finding}");
        }
        tracing::warn!("{finding}");
    }
    Ok(sink)
}

/// Starts the publisher, in transactions of its own.
///
/// With `poller_only` all events come from the table, in batches, as in the pattern that this program follows; a commit
/// wakes the poller, so that they need not wait for the next poll. Without it they go out from memory, and sooner.
pub(crate) fn start(store: PostgresStore, kafka: KafkaSink) -> Result<Outbox<PostgresStore>, ConfigError> {
    Outbox::builder(store)
        .on_sink("Order", "OrderCreated", kafka)
        .poller_only()
        .poll_every(POLL_EVERY)
        .batch_size(BATCH)
        .max_batch(BATCH)
        .retry(retry())
        .keep_done_for(KEEP_SENT_FOR)
        .start()
}

#[cfg(test)]
mod tests {
    use pillarbox::RetryPolicy;

    use super::*;

    /// T4: all five delays are waited, without any randomness, and the sixth failure is the last.
    #[test]
    fn five_delays_are_waited() {
        for (attempt, millis) in (1..).zip([100, 200, 400, 800, 1_600]) {
            for random in [0.0, 0.5, 1.0] {
                assert_eq!(retry().next_delay(attempt, random), Duration::from_millis(millis));
            }
        }
        assert_eq!(RetryPolicy::max_attempts(&retry()), 6);
    }
}
