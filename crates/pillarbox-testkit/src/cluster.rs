//! Several processes on one outbox, some of which are killed or stopped.
//!
//! A test binary that runs these cases can also be a member of the cluster: its `main` begins with
//!
//! ```text
//! if let Some(code) = cluster::member::<PostgresStage>() {
//!     return code;
//! }
//! ```
//!
//! Members deliver what they take and tell about it on their standard output. Time is real here, as processes are:
//! leases last a second or two, and nothing waits for anything but an event.

#![expect(clippy::unwrap_used, reason = "cases are tests")]

mod member;

use std::time::Duration;

use pillarbox::store::{Administration, Status};
use pillarbox::{Event, Outbox};

pub use member::member;
use member::{HANGS, Setting};
pub(crate) use member::{Member, orders, say};

use crate::acceptance::Stage;

/// Adds the cases of a [cluster](mod@crate::cluster) to a [`Suite`](crate::servers::Suite):
/// `cluster_trials!(suite, server, Stage)`.
#[macro_export]
macro_rules! cluster_trials {
    ($suite:expr, $server:expr, $stage:ty) => {{
        use $crate::cluster;
        $crate::trials!($suite, $server, $stage; cluster {
            eight_processes_share_the_work
            killed_process_is_taken_over
            stopped_process_settles_nothing
            commit_reaches_another_process
            older_namesake_stops_when_it_settles
            older_namesake_without_losses_stops_too
        });
    }};
}

/// A stage that other processes can find.
pub trait Cluster: Stage {
    /// Where it is, in one line of text.
    fn address(&self) -> String;

    /// The store at an address.
    fn at(address: &str) -> impl Future<Output = Self::Store> + Send;
}

/// Transactions for eight processes to share the events of.
const COMMITS: usize = 20;

/// Events in each of them.
const EVENTS: usize = 100;

/// More than one process can hold: a thousand in its queue, and one for each of its four workers.
const TOO_MANY: usize = 1_100;

/// Long enough that no lease ends while a case runs.
const LONG: Setting = Setting { delivery_timeout: Duration::from_secs(600), margin: Duration::from_secs(60) };

/// Short enough to wait for, and long enough for a test on a busy machine to stop a member before it.
const SHORT: Setting =
    Setting { delivery_timeout: Duration::from_secs(5), margin: Duration::from_millis(250) };

/// S5, Q3: eight processes on one table take different events, and every event is delivered once.
pub async fn eight_processes_share_the_work<C: Cluster>(stage: &C) {
    let mut members: Vec<Member> = (0..8).map(|_| Member::start(stage, LONG)).collect();
    for member in &mut members {
        member.ready().await;
    }

    let mut written = write(stage, HANGS, TOO_MANY).await;
    all_are_taken(stage, &written).await;
    for _ in 0..COMMITS {
        written.extend(write(stage, "OrderPlaced", EVENTS).await);
    }
    for member in &mut members {
        member.answer().await;
    }
    nothing_is_pending(stage).await;
    let mut shares = Vec::new();
    for member in members {
        shares.push(member.leave().await);
    }

    let busy = shares.iter().filter(|share| !share.is_empty()).count();
    assert!(busy > 1, "only one process did all the work");
    let mut delivered = shares.concat();
    delivered.sort();
    written.sort();
    assert_eq!(delivered, written, "each event is delivered once");
}

/// S5, Q3: what a killed process had taken is delivered by another when its lease ends.
pub async fn killed_process_is_taken_over<C: Cluster>(stage: &C) {
    let written = write(stage, HANGS, 3).await;
    let mut first = Member::start(stage, SHORT);
    first.hears_all(&written).await;

    first.kill().await;
    let mut second = Member::start(stage, SHORT);
    second.hears_all(&written).await;
    second.answer().await;
    second.leave().await;

    for id in &written {
        let row = stage.row(id).await.unwrap();
        assert_eq!((row.status, row.attempts), (Ok(Status::Done), 0), "of {id}");
    }
}

/// S10: a process that overslept its leases settles none of the events that another has taken, and says so.
pub async fn stopped_process_settles_nothing<C: Cluster>(stage: &C) {
    let written = write(stage, HANGS, 3).await;
    let mut overslept = Member::start(stage, SHORT);
    overslept.hears_all(&written).await;

    overslept.stop();
    let mut current = Member::start(stage, LONG);
    current.hears_all(&written).await;
    overslept.go_on();
    overslept.answer().await;
    let lost = overslept.loses(written.len()).await;

    assert_eq!(lost, written.len());
    for id in &written {
        let row = stage.row(id).await.unwrap();
        assert!(row.status.unwrap().is_pending(), "{id} was settled by the process that overslept");
        assert!(row.locked_by.is_some(), "{id} was given back by the process that overslept");
    }
    current.answer().await;
    current.leave().await;
    for id in &written {
        assert_eq!(stage.row(id).await.unwrap().status, Ok(Status::Done));
    }
}

/// P5: a commit here is delivered by another process, which learns of it from the database or by its poll.
pub async fn commit_reaches_another_process<C: Cluster>(stage: &C) {
    let mut relay = Member::start(stage, LONG);
    relay.ready().await;

    for _ in 0..3 {
        let written = write(stage, "OrderPlaced", 1).await;
        relay.hears_all(&written).await;
    }
    relay.leave().await;
}

/// S10: the older of two processes under one name settles nothing of what the younger took over at its start, and
/// stops.
pub async fn older_namesake_stops_when_it_settles<C: Cluster>(stage: &C) {
    let held = write(stage, HANGS, 3).await;
    let mut older = Member::start_as("relay-1", stage, LONG);
    older.hears_all(&held).await;
    let mut younger = Member::start_as("relay-1", stage, LONG);
    younger.hears_all(&held).await;

    older.answer().await;
    let late = older.stops().await;

    assert_eq!(late, [""; 0], "the older begins nothing more");
    for id in &held {
        let row = stage.row(id).await.unwrap();
        assert!(row.status.unwrap().is_pending(), "{id} was settled by the older");
        assert!(row.locked_by.is_some(), "{id} was given back by the older");
    }
    younger.answer().await;
    let next = write(stage, "OrderPlaced", 1).await;
    younger.hears_all(&next).await;
    younger.leave().await;
    for id in held.iter().chain(&next) {
        assert_eq!(stage.row(id).await.unwrap().status, Ok(Status::Done), "of {id}");
    }
}

/// S10, Q3: an older process that has lost nothing to its namesake stops all the same when it settles, and every
/// event is delivered once.
pub async fn older_namesake_without_losses_stops_too<C: Cluster>(stage: &C) {
    let mut older = Member::start_as("relay-1", stage, LONG);
    older.ready().await;
    let mut younger = Member::start_as("relay-1", stage, LONG);
    younger.ready().await;

    let mut older = std::pin::pin!(tokio::time::timeout(member::PATIENCE, older.stops()));
    let mut written = Vec::new();
    let stopped = loop {
        written.extend(write(stage, "OrderPlaced", 1).await);
        tokio::select! {
            biased;
            stopped = &mut older => break stopped,
            () = member::breathe() => {}
        }
    };
    let mut delivered = stopped.expect("the older stops");
    nothing_is_pending(stage).await;
    delivered.extend(younger.leave().await);

    delivered.sort();
    written.sort();
    assert_eq!(delivered, written, "each event is delivered once");
}

/// Waits until some process holds each of these events.
async fn all_are_taken<C: Cluster>(stage: &C, ids: &[String]) {
    let taken = async {
        for id in ids {
            while stage.row(id).await.unwrap().locked_by.is_none() {
                member::breathe().await;
            }
        }
    };
    tokio::time::timeout(member::PATIENCE, taken).await.expect("all events are taken");
}

/// Waits until every event is done or dead.
pub(crate) async fn nothing_is_pending<C: Cluster>(stage: &C) {
    let store = stage.store();
    let settled = async {
        while store.stats().await.unwrap().pending() > 0 {
            member::breathe().await;
        }
    };
    tokio::time::timeout(member::PATIENCE, settled).await.expect("all events are settled");
}

/// Commits events from an outbox that delivers nothing itself, and returns their ids.
async fn write<C: Cluster>(stage: &C, event_type: &'static str, count: usize) -> Vec<String> {
    let writer = Outbox::builder(stage.store()).writer_only().start().unwrap();
    let events = (0..count).map(|_| Event::of_json(event_type, "{}").unwrap());
    let mut tx = writer.begin().await.unwrap();
    let ids = writer.write_all(&mut tx, events).await.unwrap();
    tx.commit().await.unwrap();
    ids
}
