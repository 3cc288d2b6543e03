WITH discarded AS (
    DELETE FROM outbox_event
    WHERE status NOT IN (0, 1, 2)
        AND event_id = ANY ($1)
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
