//! The cases, each written once for all databases.

pub(crate) mod backlog;
pub(crate) mod claimers;
pub(crate) mod done_rows;
pub(crate) mod drain;
pub(crate) mod handlers;
pub(crate) mod held_snapshot;
pub(crate) mod hot_latency;
pub(crate) mod memory;
pub(crate) mod owned_aside;
pub(crate) mod owned_drain;
pub(crate) mod owned_held_snapshot;
pub(crate) mod owned_hot_key;
pub(crate) mod owned_instances;
pub(crate) mod owned_ordered;
pub(crate) mod owned_wal;
pub(crate) mod relay_kafka;
pub(crate) mod run_sink;
pub(crate) mod wake_up;
pub(crate) mod wal;
pub(crate) mod write;

use anyhow::{Result, bail};
use clap::ValueEnum;

use crate::database::Server;
use crate::measure::Scale;
use crate::owned::Owned;
use crate::report::Line;

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Case {
    /// A business transaction with one event
    Write,
    /// A business transaction with ten events
    WriteTen,
    /// From the commit's return to the listener's start
    HotLatency,
    /// From a commit to the listener of a relay in another process
    WakeUp,
    /// 100,000 pending events
    Drain,
    /// Draining beside 0, 1 and 5 million done events
    DrainDoneRows,
    /// Draining 10,000 and 1 million pending events
    DrainBacklog,
    /// 1, 4 and 8 processes that drain the same outbox
    Claimers,
    /// Draining while another connection holds a snapshot open
    HeldSnapshot,
    /// What draining writes to the log, and how often it commits
    Wal,
    /// Runs against single deliveries, with a sink that answers after 2 ms
    RunSink,
    /// The resident set with 1 million pending events behind a blocked listener
    Memory,
    /// Typed handlers against a plain listener
    Handlers,
    /// 300,000 pending events, by the owner of their partitions
    OwnedDrain,
    /// The same in the order of 200 keys
    OwnedOrdered,
    /// Events of one key, in order
    OwnedHotKey,
    /// Draining in order beside keys that wait
    OwnedAside,
    /// 1 and 2 processes that own the partitions of one outbox
    OwnedInstances,
    /// From the commit's return to the listener's start, by the owner of the partition
    OwnedLatency,
    /// Owners that read while another connection holds a snapshot open, and come and go
    OwnedHeldSnapshot,
    /// What owners write to the log, and how often they commit
    OwnedWal,
    /// From the table to Kafka, with and without an outage
    RelayKafka,
}

impl Case {
    /// As it is given on the command line.
    pub(crate) fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }
}

/// The cases that need nothing but a database.
pub(crate) async fn measure<D: Owned>(case: Case, place: &D, scale: Scale) -> Result<Vec<Line>> {
    match case {
        Case::Write => write::measure(place, scale).await,
        Case::HotLatency => hot_latency::measure(place, scale).await,
        Case::Drain => drain::measure(place, scale).await,
        Case::DrainDoneRows => done_rows::measure(place, scale).await,
        Case::DrainBacklog => backlog::measure(place, scale).await,
        Case::RunSink => run_sink::measure(place, scale).await,
        Case::Memory => memory::measure(place, scale).await,
        Case::Handlers => handlers::measure(place, scale).await,
        Case::OwnedDrain => owned_drain::measure(place, scale).await,
        Case::OwnedOrdered => owned_ordered::measure(place, scale).await,
        Case::OwnedHotKey => owned_hot_key::measure(place, scale).await,
        Case::OwnedAside => owned_aside::measure(place, scale).await,
        Case::OwnedLatency => hot_latency::measure_owned(place, scale).await,
        _ => bail!("there is no case `{}` for {}", case.name(), D::NAME),
    }
}

/// Those, and the cases that need a server.
pub(crate) async fn measure_on_server<D: Server + Owned>(
    case: Case,
    place: &D,
    scale: Scale,
) -> Result<Vec<Line>> {
    match case {
        Case::WriteTen => write::measure_ten(place, scale).await,
        Case::Claimers => claimers::measure(place, scale).await,
        Case::HeldSnapshot => held_snapshot::measure(place, scale).await,
        Case::Wal => wal::measure(place, scale).await,
        Case::OwnedInstances => owned_instances::measure(place, scale).await,
        Case::OwnedHeldSnapshot => owned_held_snapshot::measure(place, scale).await,
        Case::OwnedWal => owned_wal::measure(place, scale).await,
        Case::RelayKafka => relay_kafka::measure(place, scale).await,
        shared => measure(shared, place, scale).await,
    }
}
