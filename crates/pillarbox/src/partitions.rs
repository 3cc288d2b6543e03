//! Owned partitions: being a member, holding a share, and reading what is held.
//!
//! Two tasks, and neither waits for the other. [`Membership`] is the only one that joins, beats, acquires and gives
//! back. [`Reader`] is the only one that knows the [lanes](crate::lanes): everybody else sends it a [`Message`].

mod hints;
mod membership;
mod reader;
mod tenure;

pub(crate) use self::hints::Hints;
pub(crate) use self::membership::{Course, Membership};
pub(crate) use self::reader::{Parts as ReaderParts, Reader};
pub(crate) use self::tenure::Tenure;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};

use crate::lanes::Read;
use crate::shutdown::Shutdown;
use crate::store::{
    Blocked, Due, Fetched, Floor, Holding, Lease, Numbers, Settlement, StoreError, Taken, WakeUp,
};

/// What the reader is told.
pub(crate) enum Message {
    /// A partition is held: begin with it. If it is here already, begin anew once nothing of it is in flight.
    Begin(Holding),
    /// A partition belongs to another.
    Lose(u8),
    /// A partition is to be given back: let nothing more of it begin.
    Drain(u8),
    /// A partition has no suspects any more.
    Absolve(u8),
    /// All that was held through an outage has been told to begin: [report](Report::Anew) that it was heard.
    Anew,
    /// All of the share that was free has been acquired.
    HasShare,
    /// A delivery has ended.
    Ended(Settlement),
    /// An outcome is recorded, or never will be.
    Recorded { lease: Lease, is_applied: bool },
    /// Tell the metrics how many keys are held back.
    CountKeys,
    /// Say when everything that was told before is done.
    Barrier(oneshot::Sender<()>),
    /// Look at everything now, and say when that is done.
    Poll(oneshot::Sender<Result<(), StoreError>>),
    /// What the reader itself has asked for has come.
    Came(Answer),
}

/// What the membership is told by the reader, in the order in which it happened.
pub(crate) enum Report {
    /// Nothing of a partition is in flight any more.
    Drained(Floor),
    /// What is told from now on is known since the last outage; all before may be from before it.
    Anew,
}

/// What the database has answered to the reader.
pub(crate) enum Answer {
    Numbers(Result<Numbers, StoreError>),
    Blocked(Vec<Holding>, Result<Vec<Blocked>, StoreError>),
    Fresh(Read, Result<Vec<Fetched>, StoreError>),
    Behind(Read, Result<Vec<Fetched>, StoreError>),
    /// With the time that it took.
    Below(Read, Duration, Result<Vec<Fetched>, StoreError>),
    Due(Read, Result<Due, StoreError>),
    Key(Read, Result<Vec<Fetched>, StoreError>),
    Parked(Read, Result<Vec<Blocked>, StoreError>),
    Started(Box<Taken>, Result<bool, StoreError>),
}

/// Where the reader is told something. It never waits: what is under way at once is limited by the lanes.
#[derive(Clone)]
pub(crate) struct Mailbox(mpsc::UnboundedSender<Message>);

impl Mailbox {
    pub(crate) fn new() -> (Self, mpsc::UnboundedReceiver<Message>) {
        let (sender, receiver) = mpsc::unbounded_channel();
        (Self(sender), receiver)
    }

    /// Tells the reader; after its end nobody needs to know.
    pub(crate) fn tell(&self, message: Message) {
        let _ = self.0.send(message);
    }
}

/// Passes hints of other processes on to the reader, until the shutdown begins.
pub(crate) async fn listen(others: Arc<dyn WakeUp>, hints: Arc<Hints>, shutdown: Arc<Shutdown>) {
    loop {
        tokio::select! {
            biased;
            () = shutdown.draining() => return,
            partitions = others.changed() => hints.give(partitions),
        }
    }
}
