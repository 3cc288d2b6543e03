//! A disk that has no room when a transaction commits.
//!
//! SQLite keeps what a small transaction changes in memory until COMMIT, so here it is COMMIT that fails.

use std::fs::File;
use std::io::Write;
use std::path::PathBuf;

use pillarbox::store::{CommitError, Status};
use pillarbox_testkit::acceptance::Desk;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::process::Command;
use tokio::sync::watch;
use tracing_subscriber::layer::SubscriberExt;

use crate::full_file::Troubles;
use crate::stage::{SqliteStage, placed};

/// Set in a process that has a disk of its own: which one.
const DISK: &str = "PILLARBOX_TEST_DISK";

/// Mounts a small disk at the first argument, for this process only, and runs the rest.
const WITH_A_SMALL_DISK: &str =
    r#"mount -t tmpfs -o size=1m tmpfs "$1" || exit; echo mounted; shift; exec "$@""#;
/// Lets a write past the limit fail, instead of killing the process, and runs the rest.
const WITH_A_LIMIT: &str = r#"trap '' XFSZ; shift; exec "$@""#;

/// Where this process keeps its files.
#[derive(Clone, Copy, PartialEq)]
enum Disk {
    /// On a disk of 1 MiB, which can be filled: SQLite says that it is full.
    Small,
    /// Under a limit for the size of files: SQLite says that writing failed.
    Limited,
}

impl Disk {
    /// The disk of this process, if it was started for one.
    fn given() -> Option<Self> {
        std::env::var(DISK).ok().map(|disk| if disk == "small" { Self::Small } else { Self::Limited })
    }

    fn fill(self) {
        match self {
            Self::Small => {
                let mut ballast = File::create(Self::ballast()).unwrap();
                while ballast.write_all(&[0; 512]).is_ok() {}
            }
            Self::Limited => Self::limit(Some(0)),
        }
    }

    fn make_room(self) {
        match self {
            Self::Small => std::fs::remove_file(Self::ballast()).unwrap(),
            Self::Limited => Self::limit(getrlimit(Resource::Fsize).maximum),
        }
    }

    fn ballast() -> PathBuf {
        std::env::temp_dir().join("ballast")
    }

    fn limit(current: Option<u64>) {
        let maximum = getrlimit(Resource::Fsize).maximum;
        setrlimit(Resource::Fsize, Rlimit { current, maximum }).unwrap();
    }
}

/// Runs `test` of this binary once more on each kind of disk.
async fn on_each_disk(test: &str) {
    for (disk, shell) in [("small", WITH_A_SMALL_DISK), ("limited", WITH_A_LIMIT)] {
        let directory = tempfile::tempdir().unwrap();
        let mut child = Command::new(if disk == "small" { "unshare" } else { "sh" });
        if disk == "small" {
            child.args(["--map-root-user", "--mount", "sh"]);
        }
        child.args(["-c", shell, "sh"]).arg(directory.path()).arg(std::env::current_exe().unwrap());
        child.args([test, "--exact", "--nocapture"]).env(DISK, disk).env("TMPDIR", directory.path());

        let output = child.output().await;

        let said =
            output.as_ref().map_or(String::new(), |output| String::from_utf8_lossy(&output.stdout).into());
        if disk == "small" && !said.starts_with("mounted") {
            eprintln!("SKIPPED {test} on a small disk: none can be mounted: {output:?}");
            continue;
        }
        let output = output.unwrap();
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && said.contains("1 passed"), "{disk}: {said}{complaint}");
    }
}

/// W13: a commit for which there is no room says so, delivers nothing, and stands in nobody's way afterwards.
#[tokio::test]
async fn commit_without_room_fails_and_makes_no_ghost() {
    let Some(disk) = Disk::given() else {
        return on_each_disk("full_disk::commit_without_room_fails_and_makes_no_ghost").await;
    };
    let stage = SqliteStage::fresh().await;
    let (listener, mut desk) = Desk::open();
    let outbox = stage.builder().on("OrderPlaced", listener).start().unwrap();
    let mut tx = outbox.begin().await.unwrap();
    outbox.write(&mut tx, placed("order-1")).await.unwrap();

    disk.fill();
    let error = tx.commit().await.unwrap_err();
    disk.make_room();

    let (is_rolled_back, remedy) = match disk {
        Disk::Small => (true, "free some space"),
        Disk::Limited => (false, "look at its disk"),
    };
    assert_eq!(matches!(error, CommitError::RolledBack { .. }), is_rolled_back, "{error:?}");
    assert!(error.to_string().contains("orders.db`") && error.to_string().contains(remedy), "{error}");
    assert_eq!(stage.status("order-1").await, None);
    let mut tx = outbox.begin().await.unwrap();
    outbox.write(&mut tx, placed("order-2")).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(desk.accept().await.id(), "order-2");
    outbox.close().await;
    assert_eq!(stage.status("order-2").await, Some(Status::Done));
    assert!(desk.waiting().is_none());
}

/// D11: an outcome for whose commit there is no room is recorded when there is, and nothing comes twice.
#[tokio::test]
async fn outcome_without_room_is_recorded_when_there_is() {
    let Some(disk) = Disk::given() else {
        return on_each_disk("full_disk::outcome_without_room_is_recorded_when_there_is").await;
    };
    let (troubles, mut troubled) = watch::channel(0);
    // The engine runs on this thread, as the test does.
    let _logs = tracing::subscriber::set_default(tracing_subscriber::registry().with(Troubles(troubles)));
    let stage = SqliteStage::fresh().await;
    let (listener, mut desk) = Desk::open();
    let outbox = stage.builder().on("OrderPlaced", listener).start().unwrap();
    let mut tx = outbox.begin().await.unwrap();
    outbox.write(&mut tx, placed("order-1")).await.unwrap();
    tx.commit().await.unwrap();
    let call = desk.next().await;

    disk.fill();
    call.succeed();
    troubled.wait_for(|count| *count > 1).await.unwrap();
    let status = stage.status("order-1").await;
    disk.make_room();
    outbox.close().await;

    assert_eq!(status, Some(Status::New));
    assert_eq!(stage.status("order-1").await, Some(Status::Done));
    assert!(desk.waiting().is_none());
}
