//! TLS and SCRAM, on Apache Kafka; needs the feature `tls`.

#![expect(clippy::unwrap_used, reason = "tests panic when something is wrong")]

#[path = "../reader/kcat.rs"]
mod kcat;
#[path = "../servers/stage.rs"]
mod stage;
mod tls;

use std::process::ExitCode;

use pillarbox_testkit::servers::{self, Suite};
use pillarbox_testkit::trials;

use stage::KafkaStage;

fn main() -> ExitCode {
    let mut suite = Suite::from_args();
    trials!(suite, servers::KAFKA, KafkaStage;
        tls {
            events_go_over_tls_with_plain_and_scram
            events_go_by_scram_without_tls
            certificate_that_nobody_vouches_for_is_told
        }
    );
    suite.run()
}
