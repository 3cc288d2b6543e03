//! Many events, and nothing goes wrong.

use std::time::Instant;

use crate::arrivals::judge;
use crate::broker::Broker;
use crate::database::Database;
use crate::relay::Relay;
use crate::stage::Stage;

/// How many events, unless `PILLARBOX_TEST_EVENTS` says otherwise.
const EVENTS: usize = 100_000;

/// K1, K3, L6, guarantees 2, 4 and 5: every event arrives once, complete, and in the order of its key.
pub(crate) async fn every_event_arrives_once_and_in_order<B: Broker>(stage: &Stage<B>) {
    let events = std::env::var("PILLARBOX_TEST_EVENTS").map_or(EVENTS, |number| number.parse().unwrap());
    let database = Database::new(B::FROM);
    database.write(0..events);
    let relay = Relay::start(&stage.file(&database.url, &stage.url));

    let begun = Instant::now();
    relay.delivers(events).await;
    let rate = events as f64 / begun.elapsed().as_secs_f64();
    let duplicates = judge::<B>(&stage.read(), events);

    eprintln!("{} from {:?}: {events} events, {rate:.0} a second", B::KIND, B::FROM);
    assert_eq!(duplicates, 0, "nothing went wrong");
    assert_eq!((database.unfinished(), database.spent()), (0, 0));
    let answer = relay.stop();
    assert_eq!(answer.code, Some(0), "{}", answer.err);
}
