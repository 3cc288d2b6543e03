WITH waiting AS MATERIALIZED (
    SELECT seq
    FROM outbox_event
    WHERE status IN (0, 2)
        AND available_at > statement_timestamp()
        AND available_at < 'infinity'
        AND reason = $1
        AND token IS NULL
    ORDER BY available_at, seq
    LIMIT $2
    FOR UPDATE SKIP LOCKED
)
UPDATE outbox_event AS event
SET
    available_at = event.due_at,
    reason = NULL
FROM waiting
WHERE event.seq = waiting.seq;
