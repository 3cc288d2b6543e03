//! What the client says of an event, in the words of the contract.

use pillarbox::SinkError;
use rdkafka::types::RDKafkaErrorCode as Code;

/// An event that was not acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) code: Code,
    /// Whether it got as far as a partition; one that did not was never on its way to a broker.
    pub(crate) has_partition: bool,
}

/// What is known about an event beside the failure.
pub(crate) struct About<'a> {
    pub(crate) topic: &'a str,
    /// Whether the topic is the same for all events of the sink.
    pub(crate) is_for_all: bool,
    /// Whether no other event was in its batch.
    pub(crate) was_alone: bool,
}

impl Failure {
    /// The client did not even take it.
    pub(crate) fn at_once(code: Code) -> Self {
        Self { code, has_partition: false }
    }

    /// Whether the broker refused a batch, and with it all events that were in it.
    pub(crate) fn is_of_batch(&self) -> bool {
        self.is_of_size() || matches!(self.code, Code::InvalidRecord | Code::InvalidTimestamp)
    }

    fn is_of_size(&self) -> bool {
        matches!(self.code, Code::MessageSizeTooLarge | Code::MessageBatchTooLarge | Code::InvalidMessageSize)
    }

    /// Whether the way to the brokers is in doubt.
    pub(crate) fn is_of_connection(&self) -> bool {
        matches!(
            self.code,
            Code::MessageTimedOut
                | Code::OperationTimedOut
                | Code::BrokerTransportFailure
                | Code::AllBrokersDown
        )
    }

    /// Whether the topic is not there, or not for us.
    pub(crate) fn is_of_topic(&self) -> bool {
        matches!(
            self.code,
            Code::UnknownTopic
                | Code::UnknownTopicOrPartition
                | Code::UnknownTopicId
                | Code::UnknownPartition
                | Code::TopicAuthorizationFailed
        )
    }

    pub(crate) fn answer(&self, about: &About<'_>) -> SinkError {
        let Self { code, .. } = self;
        let topic = about.topic;
        match code {
            _ if self.is_of_batch() && !about.was_alone => SinkError::unavailable(format!(
                "the broker refuses the batch that the event was in, so that it is sent alone next time; if this goes \
                 on, lower `batch_bytes` to `max.message.bytes` of topic `{topic}` ({code})"
            )),
            _ if self.is_of_size() => SinkError::rejected(format!(
                "the broker refuses the event: it exceeds the limit of topic `{topic}`; raise its `max.message.bytes`, \
                 or lower `max_message_bytes` to refuse such events before they are sent ({code})"
            ))
            .for_good(),
            Code::InvalidRecord => SinkError::rejected(format!(
                "the broker refuses the event in topic `{topic}`; a topic that is compacted takes none without a key \
                 ({code})"
            ))
            .for_good(),
            Code::InvalidTopic => {
                SinkError::rejected(format!("the broker refuses topic `{topic}` ({code})")).for_good()
            }
            Code::InvalidDifferentRecord => {
                SinkError::unavailable("the broker refuses another event of the same batch")
            }
            Code::InvalidTimestamp => SinkError::rejected(format!(
                "the broker refuses the time of the event; compare the clocks, and see `message.timestamp.after.max.ms` \
                 of topic `{topic}` ({code})"
            )),
            _ if self.is_of_topic() => self.topic_is_closed(about),
            _ if self.has_partition => SinkError::unknown(format!(
                "no acknowledgement from topic `{topic}`, so that the event may have arrived or not ({code})"
            )),
            _ => SinkError::unavailable(format!("topic `{topic}` cannot be reached ({code})")),
        }
    }

    /// A topic that is not there, or not for us, says nothing about an event if it is the topic of all.
    fn topic_is_closed(&self, about: &About<'_>) -> SinkError {
        let About { topic, .. } = about;
        let text = match self.code {
            Code::TopicAuthorizationFailed => {
                format!("topic `{topic}` is not open to this user; allow WRITE and DESCRIBE on it")
            }
            code => format!("topic `{topic}` does not exist; create it ({code})"),
        };
        if about.is_for_all { SinkError::unavailable(text) } else { SinkError::rejected(text) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(code: Code, has_partition: bool, is_for_all: bool, was_alone: bool) -> SinkError {
        Failure { code, has_partition }.answer(&About { topic: "orders", is_for_all, was_alone })
    }

    /// T5: what never left is unavailable; what may have left is unknown, whatever the client calls it.
    #[test]
    fn what_may_have_left_is_unknown() {
        for code in [
            Code::MessageTimedOut,
            Code::BrokerTransportFailure,
            Code::PurgeQueue,
            Code::OutOfOrderSequenceNumber,
            Code::NotEnoughReplicasAfterAppend,
            Code::Fatal,
        ] {
            assert!(answer(code, true, true, true).is_unknown(), "{code}");
            assert!(answer(code, false, true, true).is_unavailable(), "{code}");
        }
    }

    /// T5: a topic that is not there is the destination's fault if it is the topic of all, else the event's.
    #[test]
    fn missing_topic_is_not_the_fault_of_every_event() {
        for code in [Code::UnknownTopic, Code::UnknownTopicOrPartition, Code::TopicAuthorizationFailed] {
            assert!(answer(code, true, true, true).is_unavailable(), "{code}");
            let of_one = answer(code, true, false, true);
            assert!(of_one.is_rejected() && !of_one.is_final(), "{code}");
        }
    }

    /// V2: an event is dead of what its batch was refused for only if it was alone in it.
    #[test]
    fn only_an_event_that_was_alone_is_refused() {
        for code in [Code::MessageSizeTooLarge, Code::InvalidRecord] {
            let alone = answer(code, true, true, true);
            assert!(alone.is_rejected() && alone.is_final(), "{alone:?}");

            assert!(answer(code, true, true, false).is_unavailable(), "{code}");
        }
        assert!(answer(Code::InvalidDifferentRecord, true, true, false).is_unavailable());
    }
}
