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

mod beats;
mod history;
mod judge;
mod process;
mod report;
mod shell;
mod take_over;

use std::time::Duration;

use pillarbox::store::Administration;
use pillarbox::{Clock, Runtime, SystemClock};

pub use process::member;
pub use report::Report;
pub use shell::{Shell, by_client};
pub use take_over::{
    given_back_partitions_are_taken_within_a_heartbeat, killed_owner_is_taken_over_when_its_leases_end,
    lone_named_instance_takes_its_own_back_at_once,
};

use crate::cluster::{Cluster, Member, nothing_is_pending};

use self::process::Role;

/// How long the processes are disturbed, in seconds, if [`Shell::SECONDS`] will not do. More than five
/// minutes of it need more minutes for the [trial](crate::servers), too.
const SECONDS: &str = "PILLARBOX_TEST_CHAOS_SECONDS";
const RELAYS: usize = 4;
const WRITERS: usize = 2;
/// Longer than an instance may be silent.
const OVERSLEEP: Duration = Duration::from_secs(3);
/// Between two events that are written by plain SQL.
const CLIENT_EVERY: Duration = Duration::from_millis(200);
/// How many kinds of disturbances there are.
const KINDS: u64 = 4;
/// Between two disturbances.
const CALM: Duration = Duration::from_millis(1_500);

/// Adds the cases of this module to a [`Suite`](crate::servers::Suite): `chaos_trials!(suite, server, Stage)`.
#[macro_export]
macro_rules! chaos_trials {
    ($suite:expr, $server:expr, $stage:ty) => {{
        use $crate::chaos;
        $crate::trials!($suite, $server, $stage; chaos {
            order_survives_everything
            killed_owner_is_taken_over_when_its_leases_end
            given_back_partitions_are_taken_within_a_heartbeat
            lone_named_instance_takes_its_own_back_at_once
        });
    }};
}

/// O1, O2, O5, Q3: while processes are killed, frozen past their leases, stopped and started, nothing is lost or dead,
/// nothing is delivered that was rolled back, every key keeps its order and waits for what failed, no two of its
/// deliveries overlap, and every duplicate has a cause.
pub async fn order_survives_everything<C: Shell>(stage: &C) {
    let seconds = std::env::var(SECONDS)
        .ok()
        .map_or(C::SECONDS, |seconds| seconds.parse().expect("a number of seconds"));
    let mut report = Report::default();
    let mut writers: Vec<Member> = (0..WRITERS).map(|_| start(stage, Role::Writer)).collect();
    let mut relays: Vec<Member> = (0..RELAYS).map(|_| start(stage, Role::Relay)).collect();
    for process in relays.iter_mut().chain(&mut writers) {
        report.hear(process.number(), &process.ready().await);
    }

    let end = SystemClock.now() + Duration::from_secs(seconds);
    let disturbing = async {
        let first = Runtime::tokio().random.next_u64() % KINDS;
        for kind in first.. {
            // However short the time, everything happens once.
            if SystemClock.now() >= end && kind - first >= KINDS {
                break;
            }
            disturb(stage, kind % KINDS, &mut relays, &mut report).await;
            SystemClock.sleep(CALM).await;
        }
    };
    let (by_client, ()) = tokio::join!(write_by_client(stage, end), disturbing);
    report.hear(std::process::id(), &by_client);
    for writer in writers {
        report.hear(writer.number(), &writer.end().await);
    }
    nothing_is_pending(stage).await;
    for relay in relays {
        report.hear(relay.number(), &relay.end().await);
    }

    report.found_dead(stage.store().stats().await.unwrap().dead);
    report.judge();
}

/// Does something to one of the processes, one of [`KINDS`] of things, and starts another in its place.
async fn disturb<C: Cluster>(stage: &C, kind: u64, relays: &mut Vec<Member>, report: &mut Report) {
    let index = Runtime::tokio().random.next_u64() as usize % relays.len();
    match kind {
        0 => {
            let victim = relays.swap_remove(index);
            let pid = victim.number();
            let from = SystemClock.now();
            let told = victim.kill().await;
            report.killed(pid, from, SystemClock.now());
            report.hear(pid, &told);
        }
        1 => {
            let pid = relays[index].number();
            let from = SystemClock.now();
            relays[index].stop();
            SystemClock.sleep(OVERSLEEP).await;
            relays[index].go_on();
            report.frozen(pid, from, SystemClock.now());
            return;
        }
        2 => {
            let leaving = relays.swap_remove(index);
            report.stopped += 1;
            report.hear(leaving.number(), &leaving.end().await);
        }
        _ => {
            // One more for a while: everybody has to give something up.
            let mut guest = start(stage, Role::Relay);
            report.hear(guest.number(), &guest.ready().await);
            SystemClock.sleep(CALM).await;
            report.stopped += 1;
            report.hear(guest.number(), &guest.end().await);
            return;
        }
    }
    relays.push(start(stage, Role::Relay));
}

/// Writes by plain SQL, with a key and without, until `end`; returns what a writer would have told.
async fn write_by_client<C: Shell>(stage: &C, end: Duration) -> Vec<String> {
    let mut told = Vec::new();
    for number in 0.. {
        if SystemClock.now() >= end {
            break;
        }
        let event_id = format!("by-client-{number}");
        let key = (number % 3 > 0).then(|| format!("order-{}", number % process::KEYS));
        let shown = key.as_deref().unwrap_or("-");
        let value = key.as_ref().map_or("NULL".to_owned(), |key| format!("'{key}'"));
        told.push(process::told("insert", &event_id, shown));
        let columns = "event_id, event_type, event_key, payload";
        let insert = format!(
            "INSERT INTO outbox_event ({columns}) VALUES ('{event_id}', 'OrderPlaced', {value}, '{{}}')"
        );
        stage.ask(insert).await;
        told.push(process::told("commit", &event_id, shown));
        SystemClock.sleep(CLIENT_EVERY).await;
    }
    told
}

fn start<C: Cluster>(stage: &C, role: Role) -> Member {
    Member::launch(&mut process::program(&stage.address(), role))
}
