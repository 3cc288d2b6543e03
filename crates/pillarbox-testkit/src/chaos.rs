//! Several processes that keep order on one outbox, while they are killed, frozen, stopped and started.
//!
//! A test binary that runs this case is also what it starts; its `main` begins with
//!
//! ```text
//! if let Some(code) = chaos::member::<PostgresStage>() {
//!     return code;
//! }
//! ```
//!
//! Every process tells what it does and when, by the clock of the machine; in the end one [`Report`] judges all of it.

#![expect(clippy::unwrap_used, reason = "cases are tests")]

mod process;
mod report;

use std::time::Duration;

use pillarbox::store::Ownership;
use pillarbox::{Clock, Runtime, SystemClock};

pub use process::member;
pub use report::Report;

use crate::cluster::{Cluster, Member, nothing_is_pending};

use self::process::Role;

/// How long the processes are disturbed, in seconds; a minute unless `PILLARBOX_TEST_CHAOS_SECONDS` says otherwise.
const SECONDS: &str = "PILLARBOX_TEST_CHAOS_SECONDS";
const RELAYS: usize = 4;
const WRITERS: usize = 2;
/// Longer than an instance may be silent.
const OVERSLEEP: Duration = Duration::from_secs(3);
/// Between two disturbances.
const CALM: Duration = Duration::from_millis(1_500);

/// Adds the case of this module to a [`Suite`](crate::servers::Suite): `chaos_trials!(suite, server, Stage)`.
#[macro_export]
macro_rules! chaos_trials {
    ($suite:expr, $server:expr, $stage:ty) => {{
        use $crate::chaos;
        $crate::trials!($suite, $server, $stage; chaos { order_survives_everything });
    }};
}

/// O1, O5, Q3: while processes are killed, frozen past their leases, stopped and started, nothing is lost, nothing is
/// delivered that was rolled back, every key keeps its order, and every duplicate has a cause.
pub async fn order_survives_everything<C: Cluster<Store: Ownership>>(stage: &C) {
    let seconds =
        std::env::var(SECONDS).ok().map_or(60, |seconds| seconds.parse().expect("a number of seconds"));
    let mut report = Report::default();
    let mut writers: Vec<Member> = (0..WRITERS).map(|_| start(stage, Role::Writer)).collect();
    let mut relays: Vec<Member> = (0..RELAYS).map(|_| start(stage, Role::Relay)).collect();
    for process in relays.iter_mut().chain(&mut writers) {
        report.hear(process.number(), process.ready().await);
    }

    let end = SystemClock.now() + Duration::from_secs(seconds);
    while SystemClock.now() < end {
        disturb(stage, &mut relays, &mut report).await;
        SystemClock.sleep(CALM).await;
    }
    for writer in writers {
        report.hear(writer.number(), writer.end().await);
    }
    nothing_is_pending(stage).await;
    for relay in relays {
        report.hear(relay.number(), relay.end().await);
    }

    report.print();
    report.judge();
}

/// Does something to one of the processes, and starts another in its place.
async fn disturb<C: Cluster>(stage: &C, relays: &mut Vec<Member>, report: &mut Report) {
    let random = Runtime::tokio().random.next_u64();
    let index = random as usize % relays.len();
    match (random >> 32) % 4 {
        0 => {
            let victim = relays.swap_remove(index);
            let pid = victim.number();
            report.disturbed(pid, "killed", SystemClock.now());
            report.hear(pid, victim.kill().await);
        }
        1 => {
            let pid = relays[index].number();
            report.disturbed(pid, "frozen", SystemClock.now());
            relays[index].stop();
            SystemClock.sleep(OVERSLEEP).await;
            relays[index].go_on();
            report.disturbed(pid, "frozen", SystemClock.now());
            return;
        }
        2 => {
            let leaving = relays.swap_remove(index);
            report.stopped += 1;
            report.hear(leaving.number(), leaving.end().await);
        }
        _ => {
            // One more for a while: everybody has to give something up.
            let mut guest = start(stage, Role::Relay);
            report.hear(guest.number(), guest.ready().await);
            SystemClock.sleep(CALM).await;
            report.stopped += 1;
            report.hear(guest.number(), guest.end().await);
            return;
        }
    }
    relays.push(start(stage, Role::Relay));
}

fn start<C: Cluster>(stage: &C, role: Role) -> Member {
    Member::launch(&mut process::program(&stage.address(), role))
}
