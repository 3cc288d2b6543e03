WITH outbox AS MATERIALIZED (
    SELECT coalesce((SELECT value FROM outbox_meta WHERE name = 'mode'), 'claims') AS mode
),
buried AS MATERIALIZED (
    SELECT seq, event_id, event_partition, event_key
    FROM outbox_event
    WHERE is_dead
        AND seq BETWEEN $1 AND $2
    FOR UPDATE
),
freed AS (
    DELETE FROM outbox_parked AS parked
    USING buried
    WHERE parked.event_partition = buried.event_partition
        AND parked.event_key = buried.event_key
        AND parked.event_id = buried.event_id
    RETURNING parked.event_id
)
UPDATE outbox_event AS event
SET
    status = 2,
    attempts = 0,
    starts = 0,
    due_at = statement_timestamp(),
    available_at = statement_timestamp(),
    reason = CASE
        WHEN outbox.mode = 'ownership' AND buried.event_id NOT IN (SELECT event_id FROM freed) THEN 'replayed'
    END
FROM outbox
CROSS JOIN buried
WHERE event.seq = buried.seq;
