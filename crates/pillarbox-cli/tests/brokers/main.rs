//! The relay on real brokers, run as a user runs it, and read back by other clients than ours.

#![expect(clippy::unwrap_used, reason = "what the tests stand on may fail as loudly as they do")]

mod arrivals;
mod broker;
mod database;
mod everywhere;
mod largest;
mod load;
mod marks;
mod outages;
mod private;
#[path = "../binary/program.rs"]
#[allow(dead_code, reason = "not every test binary needs all of it")]
mod program;
mod receiver;
mod relay;
mod secrets;
mod stage;
mod throughput;
mod tools;
mod watching;

use std::process::ExitCode;

use pillarbox_testkit::servers::Suite;
use pillarbox_testkit::trials;

use crate::broker::{Broker, Kafka, Nats, RabbitMq, Redis};
use crate::everywhere::Everywhere;
use crate::private::Private;
use crate::stage::Stage;
use crate::tools::TOOLS;
use crate::watching::Bare;

fn main() -> ExitCode {
    let mut suite = Suite::from_args();
    trials!(suite, TOOLS, Bare;
        watching {
            metrics_are_as_prometheus_wants_them
        }
    );
    trials!(suite, TOOLS, Everywhere;
        secrets {
            no_secret_is_ever_shown
            no_secret_is_shown_by_a_mistake
        }
        largest {
            largest_event_arrives_or_the_limit_is_named
        }
    );
    add::<Kafka>(&mut suite);
    add::<Nats>(&mut suite);
    add::<RabbitMq>(&mut suite);
    add::<Redis>(&mut suite);
    suite.run()
}

/// What every broker is put through.
fn add<B: Broker>(suite: &mut Suite) {
    trials!(suite, B::SERVER, Stage<B>;
        throughput {
            every_event_arrives_once_and_in_order
        }
    );
    trials!(suite, B::SERVER.private(B::KIND), Private<B>;
        outages {
            nothing_is_lost_while_the_broker_is_stopped
            nothing_is_lost_when_the_broker_is_killed
            nothing_is_lost_when_answers_are
        }
    );
}
