WITH fence AS MATERIALIZED (
    SELECT event_partition
    FROM outbox_partition
    WHERE event_partition = $2
        AND epoch = $3
    FOR SHARE
)
UPDATE outbox_event AS event
SET starts = $5 + 1
FROM fence
WHERE event.seq = $1
    AND event.event_id IS NOT DISTINCT FROM $4
    AND event.event_partition = fence.event_partition
    AND event.starts IN ($5, $5 + 1)
    AND event.status NOT IN (1, 3);
