WITH discarded AS (
    DELETE FROM outbox_event
    WHERE is_dead
        AND seq BETWEEN $1 AND $2
    RETURNING event_id, event_partition, event_key
),
freed AS (
    DELETE FROM outbox_parked AS parked
    USING discarded
    WHERE parked.event_partition = discarded.event_partition
        AND parked.event_key = discarded.event_key
        AND parked.event_id = discarded.event_id
)
SELECT event_id
FROM discarded;
