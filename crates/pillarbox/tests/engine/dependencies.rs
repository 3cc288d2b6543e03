//! What the core depends on.

use std::collections::BTreeSet;
use std::process::Command;

/// What the core asks for itself.
const DIRECT: [&str; 8] =
    ["pillarbox-macros", "rustix", "serde", "serde_json", "thiserror", "tokio", "tracing", "ulid"];

/// What those bring along. A new name here is a decision: none is a driver, a broker client or a web framework.
const INDIRECT: [&str; 26] = [
    "bitflags",
    "cfg-if",
    "chacha20",
    "cpufeatures",
    "errno",
    "getrandom",
    "itoa",
    "libc",
    "linux-raw-sys",
    "memchr",
    "once_cell",
    "pin-project-lite",
    "proc-macro2",
    "quote",
    "rand",
    "rand_core",
    "serde_core",
    "serde_derive",
    "syn",
    "thiserror-impl",
    "tokio-macros",
    "tracing-core",
    "unicode-ident",
    "windows-link",
    "windows-sys",
    "zmij",
];

/// The names in the core's tree of dependencies down to `depth`, without its own.
fn dependencies(depth: &str) -> BTreeSet<String> {
    let output = Command::new(env!("CARGO"))
        .args(["tree", "--offline", "-p", "pillarbox", "-e", "normal", "--prefix", "none"])
        .args(["--format", "{p}", "--depth", depth])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let tree = String::from_utf8(output.stdout).unwrap();
    let names = tree.lines().filter_map(|line| line.split(' ').next());
    names.filter(|name| !["", "pillarbox"].contains(name)).map(str::to_owned).collect()
}

/// S3: the core depends on no driver, no broker client and no web framework: on nothing but what is listed.
#[test]
fn core_depends_on_no_driver_broker_client_or_web_framework() {
    let (direct, all) = (dependencies("1"), dependencies("99"));

    assert_eq!(direct, DIRECT.map(str::to_owned).into());
    let listed: BTreeSet<String> = DIRECT.into_iter().chain(INDIRECT).map(str::to_owned).collect();
    let new: Vec<_> = all.difference(&listed).collect();
    assert_eq!(new, Vec::<&String>::new(), "is it a driver, a broker client or a web framework?");
}
