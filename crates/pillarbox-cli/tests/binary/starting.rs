//! A relay that cannot start says why, and so that a supervisor does not start it again where that helps nothing.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use crate::daemon::{Relay, free_port, get};
use crate::relay::{configure, to_stdout};
use crate::shop::{Answer, Shop, pillarbox};

/// Long enough for anything, even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// M3: what no restart mends ends with 2, and nothing was delivered or created.
#[test]
fn what_no_restart_mends_ends_with_2() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let shop = Shop::with_events(&[("order-1", 0)]);
    let end = |shop: &Shop, port: u16, prefix: &str| {
        let text = to_stdout(shop, port).replace("[messages]", &format!("{prefix}[messages]"));
        let config = configure(shop, &text);
        Answer::of(pillarbox().args(["relay", "--config", &config]).output().unwrap())
    };
    let letter = Shop::empty();
    std::fs::write(letter.file(), "Dear customer, your order is on its way.").unwrap();
    let empty = Shop::empty();

    for (answer, expected) in [
        (
            end(&shop, taken.local_addr().unwrap().port(), ""),
            "; set `http.listen` to a free address: Address already".to_owned(),
        ),
        (
            end(&letter, free_port(), ""),
            format!("outbox `outbox`: `{}` is not a SQLite database", letter.db()),
        ),
        (
            end(&empty, free_port(), ""),
            format!("no such file: `{}`; `pillarbox migrate` creates it", empty.db()),
        ),
        (
            end(&shop, free_port(), "prefix = \"billing_\"\n"),
            format!(
                "outbox `outbox`: {}, prefix `billing_`: there is no outbox in this database; run `pillarbox migrate`",
                shop.db()
            ),
        ),
    ] {
        assert_eq!((answer.code, answer.out.as_str()), (Some(2), ""), "{}", answer.err);
        assert!(answer.err.contains(&expected), "{expected} in {}", answer.err);
    }
    assert!(!empty.file().exists());
    assert_eq!(shop.number("SELECT count(*) FROM outbox_event WHERE starts = 0"), 1);
}

/// S4: a file is created where the settings ask for tables in it.
#[test]
fn tables_that_are_asked_for_are_made() {
    let shop = Shop::empty();
    let port = free_port();
    let text = to_stdout(&shop, port).replace("[messages]", "migrate = true\n[messages]");
    let relay = Relay::start(&configure(&shop, &text));

    let begun = Instant::now();
    while !get(port, "/readyz").0.contains("200") {
        assert!(begun.elapsed() < PATIENCE);
    }

    assert_eq!(relay.stop().code, Some(0));
    assert!(shop.file().exists());
}
