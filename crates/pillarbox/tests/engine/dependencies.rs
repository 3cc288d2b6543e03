//! What the core depends on.

use std::process::Command;

/// S3: the core depends on no driver, no broker client and no web framework.
#[test]
fn core_depends_on_no_driver_broker_client_or_web_framework() {
    let output = Command::new(env!("CARGO"))
        .args(["tree", "--offline", "-p", "pillarbox", "-e", "normal", "--prefix", "none", "--format", "{p}"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    let tree = String::from_utf8(output.stdout).unwrap();

    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let names: Vec<&str> = tree.lines().filter_map(|line| line.split(' ').next()).collect();
    assert!(names.contains(&"tokio"), "{tree}");
    for foreign in [
        "sqlx",
        "libsqlite3-sys",
        "rusqlite",
        "postgres",
        "mysql",
        "diesel",
        "sea-orm",
        "rdkafka",
        "nats",
        "lapin",
        "redis",
        "reqwest",
        "hyper",
        "axum",
        "actix",
        "tonic",
        "rustls",
        "openssl",
    ] {
        let found = names.iter().find(|name| name.starts_with(foreign));
        assert_eq!(found, None, "the core must not depend on it");
    }
}
