//! Writers that compute partitions wrongly are found out.

use crate::daemon::{Relay, free_port, get};
use crate::relay::{configure, to_stdout};
use crate::shop::Shop;

/// O3: an event in another partition than that of its key is delivered; an ERROR names it and the right one, and a metric
/// counts it.
#[test]
fn event_in_a_wrong_partition_is_told() {
    let shop = Shop::with_events(&[]);
    shop.execute(
        "INSERT INTO outbox_event (event_id, event_type, event_key, event_partition, payload) \
         VALUES ('e-1', 'OrderPlaced', 'order-17', 193, '{}'), ('e-2', 'OrderPlaced', 'order-17', 192, '{}')",
    );
    let port = free_port();
    let ordered = to_stdout(&shop, port).replace("[outbox]\n", "[outbox]\nordered = true\n");
    let mut relay = Relay::start(&configure(&shop, &ordered));

    let mut ids = [relay.event()["id"].clone(), relay.event()["id"].clone()];
    let (_, page) = get(port, "/metrics");
    let answer = relay.stop();

    ids.sort_by_key(ToString::to_string);
    assert_eq!(ids, ["e-1", "e-2"]);
    assert!(page.contains("pillarbox_misplaced_total{outbox=\"outbox\"} 1\n"), "{page}");
    let errors: Vec<&str> = answer.err.lines().filter(|line| line.contains("ERROR")).collect();
    let named = ["this event is in a wrong partition", "e-1", "partition=193", "right=192"];
    assert_eq!(errors.len(), 1, "{}", answer.err);
    assert!(named.iter().all(|word| errors[0].contains(word)), "{errors:?}");
}
