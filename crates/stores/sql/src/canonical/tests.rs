use std::time::Duration;

use pillarbox::store::StoreError;
use pillarbox::{EventBuilder, Timestamp};

use super::*;

fn names() -> Names {
    Names::new(Some("shop"), "eu_").unwrap()
}

fn insert(database: Database) -> Insert {
    Insert::new(database, &names())
}

fn placed(id: &str) -> Event {
    Event::builder("OrderPlaced").id(id).aggregate("Order", "order-17").json_text("{}").build().unwrap()
}

/// S6, W12: the INSERT goes to the table of this outbox and names no other.
#[test]
fn statement_has_the_names_of_the_outbox() {
    for database in [Database::Postgres, Database::MySql, Database::Sqlite] {
        let sql = insert(database).for_events(1);

        assert!(sql.starts_with("INSERT INTO shop.eu_outbox_event (\n"), "{sql}");
        assert_eq!(sql.matches("outbox_event").count(), 1, "{sql}");
    }
}

/// W2, W12: one statement serves many events, and every value has its place.
#[test]
fn every_event_has_a_row_of_its_own() {
    let places = |database, events: usize| {
        let sql = insert(database).for_events(events);
        let highest = events * VALUES;
        let sign = if database == Database::Postgres { '$' } else { '?' };
        assert!(
            sql.contains(&format!("{sign}{highest} ")) || sql.contains(&format!("{sign}{highest})")),
            "{sql}"
        );
        assert!(!sql.contains(&format!("{sign}{}", highest + 1)), "{sql}");
    };

    for events in [1, 2, 500] {
        places(Database::Postgres, events);
        places(Database::Sqlite, events);
        let bound = insert(Database::MySql).bound(&placed("1")).len();
        assert_eq!(insert(Database::MySql).for_events(events).matches('?').count(), events * bound);
    }
}

/// W12: in each database a row uses every value.
#[test]
fn a_row_uses_all_values() {
    let places = |database| {
        insert(database).row().filter_map(|piece| match piece {
            Piece::Value(value) => Some(value),
            Piece::Sql(_) => None,
        })
    };

    for database in [Database::Postgres, Database::MySql, Database::Sqlite] {
        assert!((0..VALUES).all(|value| places(database).any(|place| place == value)));
    }
}

/// W12: the values are those of the event, and the partition is that of its key.
#[test]
fn values_are_those_of_the_event() {
    let values = values(&placed("1")).map(|value| match value {
        Value::Text(text) => text.map(Cow::into_owned),
        Value::Bytes(bytes) => bytes.map(|bytes| format!("{} bytes", bytes.len())),
        Value::Number(number) => number.map(|number| number.to_string()),
    });

    let expected = [Some("1"), Some("OrderPlaced"), Some("Order"), Some("order-17"), None, Some("order-17")];
    assert_eq!(values[..6], expected.map(|text| text.map(str::to_owned)));
    assert_eq!(values[6].as_deref(), Some("192"));
    assert_eq!(
        values[8..],
        [None, None, Some("{}"), None, None, Some("0")].map(|text| text.map(str::to_owned))
    );
}

/// V8: a due time that a database cannot hold becomes the last one that it can.
#[test]
fn due_times_stay_within_what_databases_can_hold() {
    let due = |event: EventBuilder| {
        let event = event.json_text("{}").build().unwrap();
        values(&event).last_chunk().cloned().map(|due: [Value<'_>; 2]| {
            due.map(|value| if let Value::Number(number) = value { number } else { None })
        })
    };
    let reminder = || Event::builder("ReminderDue");

    let late = due(reminder().available_at(Timestamp::from_micros(i64::MAX)));
    let early = due(reminder().available_at(Timestamp::from_micros(i64::MIN)));
    let long = due(reminder().deliver_after(Duration::MAX));

    assert_eq!(late, Some([Some(LATEST), Some(0)]));
    assert_eq!(early, Some([Some(EARLIEST), Some(0)]));
    assert_eq!(long, Some([None, Some(micros(Duration::MAX))]));
}

/// W12: what stands twice in MySQL's row is bound twice, in the order of its places; the others have numbers.
#[test]
fn values_are_bound_where_they_stand() {
    let event =
        Event::builder("ReminderDue").id("1").deliver_after(Duration::from_micros(17)).json_text("{}");
    let event = event.build().unwrap();

    let bound = insert(Database::MySql).bound(&event);

    let due = [Value::Number(None), Value::Number(Some(17))];
    assert_eq!(bound[..VALUES], values(&event));
    assert_eq!(bound[VALUES..], due);
    for database in [Database::Postgres, Database::Sqlite] {
        assert_eq!(insert(database).bound(&event), values(&event));
    }
}

/// W11, W12: a time that the column cannot hold is refused before the database is asked, and names its event.
#[test]
fn times_that_no_column_can_hold_are_refused() {
    let occurred = |micros| {
        let event = Event::builder("OrderPlaced").id("17").occurred_at(Timestamp::from_micros(micros));
        event.json_text("{}").build().unwrap()
    };
    let refusal = |database, micros| match insert(database).checked(&names(), [occurred(micros)]) {
        Ok(_) => None,
        Err(WriteError::Store(error)) => Some(error.to_string()),
        Err(other) => panic!("{other:?}"),
    };

    for micros in [EARLIEST - 1, LATEST + 1] {
        let refused = refusal(Database::MySql, micros).unwrap();
        assert!(refused.ends_with("`occurred_at` of `17` lies outside the years 1000 to 9999"), "{refused}");
    }
    assert!(refusal(Database::Postgres, EARLIEST_IN_POSTGRES - 1).unwrap().contains("4713 BC"));
    for (database, micros) in [
        (Database::MySql, EARLIEST),
        (Database::MySql, LATEST),
        (Database::Postgres, EARLIEST_IN_POSTGRES),
        (Database::Postgres, i64::MAX),
        (Database::Sqlite, i64::MIN),
    ] {
        assert_eq!(refusal(database, micros), None, "{database:?}");
    }
}

/// W12: several statements are put into a savepoint where the database goes on after one that failed.
#[test]
fn several_statements_are_one_savepoint() {
    let many: Vec<Event> = (0..501).map(|n| placed(&n.to_string())).collect();

    for database in [Database::Postgres, Database::MySql, Database::Sqlite] {
        assert_eq!(insert(database).savepoint(&many[..500]), None);
        assert_eq!(insert(database).savepoint(&many).is_some(), database != Database::Postgres);
    }
}

/// S2: MySQL has one SQLSTATE for many errors; its numbers tell them apart.
#[test]
fn failures_on_mysql_are_told_apart_by_their_number() {
    for (number, state, cause) in [
        (1062, "23000", Cause::Repeated),
        (1146, "42S02", Cause::Missing),
        (1142, "42000", Cause::Denied),
        (1143, "42000", Cause::Denied),
        (1305, "42000", Cause::Ended),
        (3819, "HY000", Cause::Refused),
        (4025, "23000", Cause::Refused),
        (1449, "HY000", Cause::Refused),
        (1213, "40001", Cause::Unavailable),
        (1205, "HY000", Cause::Unavailable),
    ] {
        assert_eq!(Cause::of_mysql(number, state), cause, "{number}");
    }
}

/// V6: an id that comes twice in one call is refused before the database is asked.
#[test]
fn an_id_that_comes_twice_is_refused() {
    let refused =
        insert(Database::MySql).checked(&names(), [placed("a"), placed("b"), placed("a")]).unwrap_err();

    assert!(matches!(refused, WriteError::DuplicateId { id } if id == "a"));
}

/// V6: the database's complaint is turned into the id that it is about.
#[test]
fn the_repeated_id_is_found_in_what_the_database_says() {
    let insert = insert(Database::Postgres);
    let events = [placed("order"), placed("order-1"), placed("1")];
    let found =
        |events: &[Event], said| match insert.failed(events, Cause::Repeated, said, "the driver's words") {
            WriteError::DuplicateId { id } => Some(id),
            _ => None,
        };

    let postgres = "Key (event_id)=(order-1) already exists.";
    let mysql = "Duplicate entry 'order-1' for key 'event_id'";
    assert_eq!(found(&events, Some(postgres)).as_deref(), Some("order-1"));
    assert_eq!(found(&events, Some(mysql)).as_deref(), Some("order-1"));
    assert_eq!(found(&events, Some("Key (id)=(17) already exists.")), None);
    assert_eq!(found(&events, None), None);
    assert_eq!(found(&events[..1], None).as_deref(), Some("order"));
}

/// W12: what a caller can do about a failure decides what it is called, and the driver's words are its source.
#[test]
fn failures_are_told_apart_by_their_sqlstate() {
    let insert = insert(Database::Postgres);
    let failed = |state| {
        let failed = insert.failed(&[placed("1")], Cause::of_sqlstate(state), None, "the driver's words");
        let WriteError::Store(error) = failed else { panic!("{failed:?}") };
        error
    };

    for state in ["40P01", "40001", "08006", "57P01", "53300", "55P03", "25006", "HY000"] {
        assert!(failed(state).is_transient(), "{state}");
    }
    assert!(matches!(failed("42P01"), StoreError::NotMigrated));
    assert!(matches!(failed("42S02"), StoreError::NotMigrated));
    assert!(failed("42501").to_string().contains("grant it INSERT"));
    let refused = failed("23514");
    assert!(matches!(refused, StoreError::Refused { .. }));
    let source = std::error::Error::source(&refused).map(ToString::to_string);
    assert_eq!(source.as_deref(), Some("the driver's words"));
}
