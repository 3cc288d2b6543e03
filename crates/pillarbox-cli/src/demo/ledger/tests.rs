//! The ledger notices what it is there to notice.

use super::*;

const DONE: Option<i64> = Some(1);
const DEAD: Option<i64> = Some(3);

fn delivered(event_id: &str, incarnation: u32) -> Try {
    Try { event_id: event_id.to_owned(), at: 1_000, attempt: 1, incarnation, delivered: true }
}

fn failed(event_id: &str) -> Try {
    Try { delivered: false, ..delivered(event_id, 1) }
}

fn books(orders: &[(&str, Option<i64>)]) -> Books {
    let orders = orders.iter().map(|(id, status)| ((*id).to_owned(), *status)).collect();
    Books { orders, ..Books::default() }
}

fn draw_up(books: &Books, tries: Vec<Try>) -> Ledger {
    let run = Run { number: 1, seed: 1, events: books.orders.len() as u64 };
    Ledger::draw_up(&run, books, &Records { tries, ..Records::default() }, 0)
}

/// Q3: delivered and dead events together are the committed orders.
#[test]
fn orders_that_are_delivered_or_dead_balance() {
    let ledger = draw_up(&books(&[("a", DONE), ("b", DEAD)]), vec![delivered("a", 1), failed("b")]);

    assert!(ledger.balanced, "{ledger:?}");
    assert_eq!((ledger.written, ledger.delivered, ledger.dead), (2, 1, 1));
}

#[test]
fn an_event_that_is_done_without_a_delivery_is_lost() {
    let ledger = draw_up(&books(&[("a", DONE)]), vec![failed("a")]);

    assert_eq!((ledger.lost, ledger.balanced), (1, false));
}

#[test]
fn an_event_that_is_missing_or_still_pending_is_lost() {
    for status in [None, Some(0), Some(2), Some(9)] {
        let ledger = draw_up(&books(&[("a", status)]), vec![delivered("a", 1)]);

        assert_eq!((ledger.lost, ledger.balanced), (1, false), "{status:?}");
    }
}

#[test]
fn a_commit_that_is_not_in_the_database_is_lost() {
    let run = Run { number: 1, seed: 1, events: 1 };
    let committed = HashMap::from([("a".to_owned(), 1_000)]);

    let ledger = Ledger::draw_up(&run, &Books::default(), &Records { committed, ..Records::default() }, 0);

    assert_eq!((ledger.lost, ledger.balanced), (1, false));
}

#[test]
fn every_order_is_committed_or_rolled_back() {
    let run = Run { number: 1, seed: 1, events: 3 };
    let mut records = Records { tries: vec![delivered("a", 1)], ..Records::default() };
    records.rolled_back.insert(2);
    let one_missing = Ledger::draw_up(&run, &books(&[("a", DONE)]), &records, 0);
    records.rolled_back.insert(3);

    let complete = Ledger::draw_up(&run, &books(&[("a", DONE)]), &records, 0);

    assert_eq!((one_missing.unaccounted, one_missing.balanced), (1, false));
    assert_eq!((complete.rolled_back, complete.unaccounted, complete.balanced), (2, 0, true));
}

/// W1: whatever a listener hears of a transaction that was rolled back is a ghost, even if it failed.
#[test]
fn an_event_without_an_order_is_a_ghost() {
    let heard = draw_up(&books(&[]), vec![failed("a")]);
    let stored = draw_up(&Books { ghost_rows: 1, ..Books::default() }, Vec::new());

    assert_eq!((heard.ghosts, heard.balanced), (1, false));
    assert_eq!((stored.ghosts, stored.balanced), (1, false));
}

/// Q3: only a crash explains a duplicate.
#[test]
fn a_duplicate_balances_only_if_a_process_died_in_between() {
    let books = books(&[("a", DONE)]);

    let crashed = draw_up(&books, vec![delivered("a", 1), delivered("a", 2)]);
    let alive = draw_up(&books, vec![delivered("a", 1), delivered("a", 1)]);

    assert_eq!((crashed.duplicates, crashed.unexplained, crashed.balanced), (1, 0, true));
    assert_eq!((alive.duplicates, alive.unexplained, alive.balanced), (1, 1, false));
}

#[test]
fn earlier_runs_on_the_same_file_are_left_out() {
    let mut books = books(&[("a", DONE)]);
    books.earlier.insert("old".to_owned());

    let ledger = draw_up(&books, vec![delivered("old", 1), delivered("a", 1)]);

    assert!(ledger.balanced, "{ledger:?}");
    assert_eq!(ledger.delivered, 1);
}

#[test]
fn latency_runs_from_the_commit_to_the_first_call() {
    let mut records = Records::default();
    for number in 0..101 {
        let id = number.to_string();
        records.committed.insert(id.clone(), 0);
        records.tries.push(Try { at: number, ..delivered(&id, 1) });
        records.tries.push(Try { at: number + 1_000, ..delivered(&id, 1) });
    }

    let tries: Vec<&Try> = records.tries.iter().collect();
    let latency = latency(&records, &tries).unwrap();

    assert_eq!(latency, Latency { p50_micros: 50, p99_micros: 99, max_micros: 100 });
}
