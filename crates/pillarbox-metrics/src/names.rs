//! What the numbers are called, and what they mean.

use metrics::{describe_counter, describe_gauge};

pub(crate) const HOT_ENQUEUED: &str = "pillarbox_hot_enqueued_total";
pub(crate) const HOT_DROPPED: &str = "pillarbox_hot_dropped_total";
pub(crate) const COLD_ENQUEUED: &str = "pillarbox_cold_enqueued_total";
pub(crate) const DELIVERED: &str = "pillarbox_delivered_total";
pub(crate) const FAILED: &str = "pillarbox_failed_total";
pub(crate) const DIED: &str = "pillarbox_died_total";
pub(crate) const UNKNOWN_HANDLER: &str = "pillarbox_unknown_handler_total";
pub(crate) const UNANSWERED: &str = "pillarbox_unanswered_total";
pub(crate) const LOST_LEASES: &str = "pillarbox_lost_leases_total";
pub(crate) const MISPLACED: &str = "pillarbox_misplaced_total";
pub(crate) const BELOW_FLOOR: &str = "pillarbox_below_floor_total";
pub(crate) const HOT_QUEUE: &str = "pillarbox_hot_queue";
pub(crate) const COLD_QUEUE: &str = "pillarbox_cold_queue";
pub(crate) const LAG: &str = "pillarbox_taken_lag_seconds";
pub(crate) const OLDEST_DUE: &str = "pillarbox_oldest_due_seconds";
pub(crate) const EVENTS: &str = "pillarbox_events";
pub(crate) const DONE_ESTIMATE: &str = "pillarbox_done_events_estimate";
pub(crate) const INSTANCES: &str = "pillarbox_instances";
pub(crate) const PARTITIONS_ASSIGNED: &str = "pillarbox_partitions_assigned";
pub(crate) const PARTITIONS_FAIR: &str = "pillarbox_partitions_fair";
// By convention of Prometheus, `_sum` and `_total` are for metrics of other kinds.
pub(crate) const PENDING: &str = "pillarbox_partitions_pending";
pub(crate) const PENDING_MAX: &str = "pillarbox_partition_pending_max";
pub(crate) const KEYS_BLOCKED: &str = "pillarbox_keys_blocked";
pub(crate) const KEYS_PARKED: &str = "pillarbox_keys_parked";
pub(crate) const HANDLER_OWED: &str = "pillarbox_handler_owed";
pub(crate) const SINK_UP: &str = "pillarbox_sink_up";
pub(crate) const ROUTE_PAUSED: &str = "pillarbox_route_paused";

const COUNTERS: [(&str, &str); 11] = [
    (HOT_ENQUEUED, "Events that entered the hot queue after their commit"),
    (HOT_DROPPED, "Events that found the hot queue full and were left to the poller"),
    (COLD_ENQUEUED, "Events that entered the cold queue from the table"),
    (DELIVERED, "Events recorded as delivered"),
    (FAILED, "Deliveries that failed and spent an attempt"),
    (DIED, "Events recorded as dead"),
    (UNANSWERED, "How often a sink left an event unanswered, which may have arrived and comes again"),
    (LOST_LEASES, "Outcomes that could not be recorded because the lease had passed to another instance"),
    (MISPLACED, "Events found in another partition than that of their key, whose writer computes it wrongly"),
    (BELOW_FLOOR, "Events that became visible below the floor of their partition, and came late"),
    (UNKNOWN_HANDLER, "How often an event was looked at that is owed to a handler which is not registered"),
];

const GAUGES: [(&str, &str); 16] = [
    (HOT_QUEUE, "Events that wait in the hot queue"),
    (COLD_QUEUE, "Events that wait in the cold queue"),
    (LAG, "How long the oldest event of the last take had been due; NaN if it could not be read"),
    (OLDEST_DUE, "How long the oldest pending event has been due; NaN if it could not be read"),
    (EVENTS, "Events in the table by status; NaN if they could not be counted"),
    (DONE_ESTIMATE, "Done events in the table, estimated without a scan; NaN if that could not be read"),
    (INSTANCES, "Instances that are alive; NaN while the heartbeat fails"),
    (PARTITIONS_ASSIGNED, "Partitions that this instance holds; NaN while the heartbeat fails"),
    (PARTITIONS_FAIR, "Partitions that this instance should hold; NaN while the heartbeat fails"),
    (PENDING, "Pending events in all partitions; NaN if they could not be counted, or rows are claimed"),
    (
        PENDING_MAX,
        "Pending events in the partition that has most; NaN if they could not be counted, or rows are claimed",
    ),
    (
        KEYS_BLOCKED,
        "Keys that wait for one of their events in the partitions of this instance; NaN while unknown",
    ),
    (KEYS_PARKED, "Keys that wait for an operator in the partitions of this instance; NaN while unknown"),
    (HANDLER_OWED, "Events that are owed to a handler or sink, as of the last count; NaN if that failed"),
    (
        SINK_UP,
        "1 if events are sent to the sink as they come, 0.5 while it is tried after an outage, 0 if it is down",
    ),
    (ROUTE_PAUSED, "1 if an operator has paused the route, so that its events wait, otherwise 0"),
];

/// Tells the recorder what the numbers mean.
pub fn describe() {
    for (name, meaning) in COUNTERS {
        describe_counter!(name, meaning);
    }
    for (name, meaning) in GAUGES {
        describe_gauge!(name, meaning);
    }
}
