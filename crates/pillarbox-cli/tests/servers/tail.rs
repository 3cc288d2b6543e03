//! `tail` shows events as they are written, and what becomes of them.

use crate::desk::Desk;
use crate::follower::{Follower, news};

/// M5: what there is is shown once, each event with what has become of it.
pub(crate) async fn events_are_shown_once(desk: &Desk) {
    desk.with_events(&[("n-1", 0), ("d-1", 1), ("r-1", 2), ("x-1", 3)]);

    let all = desk.run("tail", &["--once", "--json"]);
    let since = desk.run("tail", &["--once", "--json", "--since", "1h", "--type", "Order*"]);
    let text = desk.run("tail", &["--once", "-n", "1"]);
    desk.run_loudly(&desk.own.url(), "tail", &["--once"]);

    assert_eq!(all.out.lines().count(), 7, "{}", all.out);
    assert_eq!(all.out.matches(r#""happened":"written""#).count(), 4, "{}", all.out);
    assert_eq!(since.out.matches(r#""happened":"written""#).count(), 4, "{}", since.out);
    assert_eq!(text.out.lines().count(), 2, "{}", text.out);
    assert!(text.out.ends_with("x-1  OrderPlaced  4 attempts: no such address\n"), "{}", text.out);
    assert!(!all.out.contains("12345678901234567890123"), "payloads are not shown: {}", all.out);
}

/// M5: events are followed to their end, and those that are committed late are shown; ctrl-c ends it well.
pub(crate) async fn news_is_shown_as_it_happens(desk: &Desk) {
    desk.with_events(&[("o-1", 0)]);
    let mut tail = Follower::of(&desk.own.url(), &["-n", "1"]);
    assert_eq!(tail.happened(), news("written", "o-1"));

    let number = desk.either("OVERRIDING SYSTEM VALUE", "");
    for (id, seq) in [("o-20", 20), ("o-15", 15)] {
        desk.sql(&format!(
            "INSERT INTO outbox_event (seq, event_id, event_type, payload) {number} VALUES ({seq}, '{id}', 'Ping', '{{}}')"
        ));
        assert_eq!(tail.happened(), news("written", id));
    }
    desk.sql("UPDATE outbox_event SET status = 1, done_at = created_at WHERE event_id = 'o-15'");
    assert_eq!(tail.happened(), news("delivered", "o-15"));
    desk.sql("DELETE FROM outbox_event WHERE event_id = 'o-20'");
    assert_eq!(tail.news()["because"], "it is deleted");

    tail.interrupt();
    let answer = tail.ended();
    assert_eq!((answer.code, answer.out.as_str(), answer.err.as_str()), (Some(0), "", ""));
}

/// M5: a reader that goes away ends it, and is no failure.
pub(crate) async fn reader_that_goes_away_ends_it(desk: &Desk) {
    desk.with_events(&[("o-1", 0)]);
    let mut tail = Follower::of(&desk.own.url(), &["-n", "1"]);
    tail.news();

    tail.close_pipe();
    desk.sql("INSERT INTO outbox_event (event_id, event_type, payload) VALUES ('o-2', 'Ping', '{}')");

    let answer = tail.ended();
    assert_eq!((answer.code, answer.err.as_str()), (Some(0), ""));
}
