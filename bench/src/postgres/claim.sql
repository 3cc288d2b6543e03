WITH due AS MATERIALIZED (
    SELECT seq
    FROM outbox_event
    WHERE status IN (0, 2)
        AND available_at <= statement_timestamp()
    ORDER BY available_at, seq
    LIMIT $4
    FOR UPDATE SKIP LOCKED
)
UPDATE outbox_event AS event
SET
    available_at = statement_timestamp() + $1 * interval '1 microsecond',
    locked_by = $2,
    locked_at = statement_timestamp(),
    token = $3,
    starts = event.starts + 1
FROM due
WHERE event.seq = due.seq
RETURNING
    event.seq,
    event.event_id,
    event.event_type,
    event.aggregate_type,
    event.aggregate_id,
    event.event_key,
    event.headers::text,
    event.attempts,
    event.payload::text;
