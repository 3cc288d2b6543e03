//! The sample runs as a user runs it.

#![expect(clippy::unwrap_used, reason = "what the tests stand on may fail as loudly as they do")]

mod process;

use std::path::Path;
use std::process::Command;

use process::{Service, eventually, follow};
use rustix::process::Signal;
use tempfile::TempDir;

const README: &str = include_str!("../../README.md");
const TEAPOTS: &str = r#"{"item":"teapot","quantity":2}"#;

fn start(directory: &Path) -> Service {
    let mut program = Command::new(env!("CARGO_BIN_EXE_example-web-service"));
    Service::start(program.current_dir(directory))
}

fn fresh() -> (TempDir, Service) {
    let directory = tempfile::tempdir().unwrap();
    let service = start(directory.path());
    (directory, service)
}

/// Q1: an order is stored with its event, which is delivered after the commit.
#[test]
fn order_is_placed_and_confirmed() {
    let (_directory, service) = fresh();

    let placed = service.post("/orders", TEAPOTS);

    assert_eq!((placed.status, &placed.body["id"]), (201, &1.into()), "{placed:?}");
    assert!(placed.head.contains("location: /orders/1\r\n"), "{}", placed.head);
    let order = eventually("the order is confirmed", || {
        Some(service.get("/orders/1").body).filter(|order| order["is_confirmed"] == true)
    });
    assert_eq!((&order["item"], &order["quantity"]), (&"teapot".into(), &2.into()));
    let mails = service.get("/mails").body;
    assert_eq!(mails.as_array().unwrap().len(), 1, "{mails}");
    assert_eq!(mails[0]["event_id"], placed.body["event_id"]);
    assert_eq!(mails[0]["text"], "Your order 1: 2 × teapot. Thank you!");
    eventually("nothing is pending", || (service.get("/outbox").body["pending"] == 0).then_some(()));
}

/// Q1: what makes no sense is refused with the name of the field, and writes nothing.
#[test]
fn bad_input_is_refused_by_field() {
    let (_directory, service) = fresh();

    for (body, status, expected) in [
        (r#"{"item":"","quantity":2}"#, 422, "`item` has 0 characters"),
        (r#"{"item":"teapot","quantity":0}"#, 422, "`quantity` is 0, and must be 1 to 1000"),
        (r#"{"item":"teapot","quantity":"two"}"#, 422, "quantity: invalid type"),
        (r#"{"item":"teapot"}"#, 422, "missing field `quantity`"),
        (r#"{"item":"teapot","quantity":2,"colour":"red"}"#, 422, "unknown field `colour`"),
        ("teapot", 400, "JSON"),
    ] {
        let refused = service.post("/orders", body);

        assert_eq!(refused.status, status, "{body}: {refused:?}");
        let error = refused.body["error"].as_str().unwrap();
        assert!(error.contains(expected), "{expected} in {error}");
    }
    assert_eq!(service.get("/orders/1").status, 404);
    assert_eq!(service.get("/orders/teapot").status, 400);
    let outbox = service.get("/outbox").body;
    assert_eq!((&outbox["pending"], &outbox["done_estimate"]), (&0.into(), &0.into()));
}

/// Q1, D9: Ctrl-C ends it in good order, and the next start delivers what was left, nothing twice.
#[test]
fn ctrl_c_loses_nothing() {
    let (directory, service) = fresh();
    for _ in 0..50 {
        assert_eq!(service.post("/orders", TEAPOTS).status, 201);
    }

    let ended = service.stop(Signal::INT);
    let service = start(directory.path());

    assert_eq!(ended.code, Some(0), "{}", ended.log);
    assert!(ended.out.starts_with("stopped: "), "{ended:?}");
    let mails = eventually("all orders are confirmed", || {
        Some(service.get("/mails").body)
            .filter(|mails| mails.as_array().is_some_and(|mails| mails.len() == 50))
    });
    let mut orders: Vec<i64> =
        mails.as_array().unwrap().iter().map(|mail| mail["order_id"].as_i64().unwrap()).collect();
    orders.sort_unstable();
    assert_eq!(orders, (1..=50).collect::<Vec<_>>());
    assert_eq!(service.stop(Signal::TERM).code, Some(0));
}

/// Q1: whoever follows the page sees what it shows.
#[test]
fn lines_of_the_readme_work() {
    let (_directory, service) = fresh();

    assert_eq!(follow(README, &service), 5);
}
