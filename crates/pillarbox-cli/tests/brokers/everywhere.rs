//! A place on every broker, for relays that lead to all of them.

use pillarbox_testkit::servers::Fresh;

use crate::broker::{Broker, Kafka, Nats, RabbitMq, Redis};
use crate::receiver::Receiver;
use crate::stage::Stage;
use crate::tools::url_of;

/// All brokers at once, and a receiver of webhooks.
pub(crate) struct Everywhere {
    pub(crate) kafka: Stage<Kafka>,
    pub(crate) nats: Stage<Nats>,
    pub(crate) rabbitmq: Stage<RabbitMq>,
    pub(crate) redis: Stage<Redis>,
    pub(crate) receiver: Receiver,
}

impl Everywhere {
    /// A sink to each, and for each a route of the same name that takes the events of the type of this name.
    pub(crate) fn sinks(&self) -> String {
        let table = |name: &str, options: String| {
            format!(
                "[sinks.{name}]\ntype = '{name}'\n{options}\n\
                 [[routes]]\nname = '{name}'\nevent_type = '{name}'\nto = '{name}'\n"
            )
        };
        let Self { kafka, nats, rabbitmq, redis, receiver } = self;
        [
            table("kafka", Kafka::options(&kafka.url, &kafka.name)),
            table("nats", Nats::options(&nats.url, &nats.name)),
            table("rabbitmq", RabbitMq::options(&rabbitmq.url, &rabbitmq.name)),
            table("redis", Redis::options(&redis.url, &redis.name)),
            table("http", format!("url = 'http://{}/hooks'\nallow_private = true", receiver.address)),
        ]
        .concat()
    }
}

impl Fresh for Everywhere {
    async fn fresh(_: &str) -> Self {
        Self {
            kafka: Stage::at(&url_of(Kafka::SERVER)),
            nats: Stage::at(&url_of(Nats::SERVER)),
            rabbitmq: Stage::at(&url_of(RabbitMq::SERVER)),
            redis: Stage::at(&url_of(Redis::SERVER)),
            receiver: Receiver::start().await,
        }
    }

    async fn clean(self) {
        self.kafka.remove();
        self.nats.remove();
        self.rabbitmq.remove();
        self.redis.remove();
    }
}
