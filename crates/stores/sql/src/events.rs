//! Events on their way into an INSERT.

use std::collections::HashSet;

use pillarbox::Event;

/// The most events of one statement.
const MOST_EVENTS: usize = 500;

/// The most bytes of payload of one statement, unless one event alone has more.
const MOST_BYTES: usize = 4 * 1024 * 1024;

/// Runs of events that fit into one statement: 500 of them, or 4 MiB of payload.
pub fn chunks(events: &[Event]) -> impl Iterator<Item = &[Event]> {
    Chunks(events)
}

/// An id that is in `events` twice.
pub fn repeated_id(events: &[Event]) -> Option<String> {
    if events.len() < 2 {
        return None;
    }
    let mut ids = HashSet::with_capacity(events.len());
    events.iter().map(Event::id).find(|&id| !ids.insert(id)).map(str::to_owned)
}

struct Chunks<'a>(&'a [Event]);

impl<'a> Iterator for Chunks<'a> {
    type Item = &'a [Event];

    fn next(&mut self) -> Option<&'a [Event]> {
        let mut bytes = 0;
        let fits = self.0.iter().take(MOST_EVENTS).take_while(|event| {
            bytes += event.payload().as_bytes().len();
            bytes <= MOST_BYTES
        });
        let count = fits.count().max(1).min(self.0.len());
        let (chunk, rest) = self.0.split_at(count);
        self.0 = rest;
        (!chunk.is_empty()).then_some(chunk)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lengths(events: &[Event]) -> Vec<usize> {
        chunks(events).map(<[Event]>::len).collect()
    }

    fn of_bytes(size: usize) -> Event {
        Event::of_bytes("OrderPlaced", vec![0; size]).unwrap()
    }

    /// W2: a statement has at most 500 events.
    #[test]
    fn a_chunk_ends_after_500_events() {
        let event = Event::of_json("OrderPlaced", "{}").unwrap();

        assert_eq!(lengths(&[]), [0; 0]);
        assert_eq!(lengths(&vec![event.clone(); 500]), [500]);
        assert_eq!(lengths(&vec![event; 1_001]), [500, 500, 1]);
    }

    /// W2: a statement has at most 4 MiB of payload.
    #[test]
    fn a_chunk_ends_after_4_mib() {
        assert_eq!(lengths(&vec![of_bytes(1 << 20); 9]), [4, 4, 1]);
    }

    /// V6: an id that comes twice is found before the database is asked.
    #[test]
    fn a_repeated_id_is_found() {
        let placed = |id: &str| Event::builder("OrderPlaced").id(id).json_text("{}").build().unwrap();

        assert_eq!(repeated_id(&[placed("order-1"), placed("order-2")]), None);
        assert_eq!(repeated_id(&[placed("a"), placed("b"), placed("a")]), Some("a".into()));
    }
}
