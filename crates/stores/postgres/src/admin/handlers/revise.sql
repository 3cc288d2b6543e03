WITH free AS MATERIALIZED (
    SELECT
        event.seq,
        revised.becomes
    FROM unnest($1::bigint[], $2::text[], $3::text[], $4::text[]) AS revised (seq, event_id, was, becomes)
    JOIN outbox_event AS event ON event.seq = revised.seq
    -- Compared in a way that has no index: rows are found by their numbers.
    WHERE event.event_id IS NOT DISTINCT FROM revised.event_id
        AND event.handlers = revised.was
        AND event.status <> 1
        AND NOT (
            event.token IS NOT NULL
            AND event.available_at > statement_timestamp()
            AND event.available_at <= statement_timestamp() + interval '1 hour'
        )
    FOR UPDATE OF event SKIP LOCKED
)
UPDATE outbox_event AS event
SET
    handlers = free.becomes,
    -- What waits for nothing but its key goes on waiting for it.
    available_at = CASE
        WHEN event.status = 3 OR event.available_at = 'infinity' THEN event.available_at
        ELSE event.due_at
    END,
    reason = CASE WHEN event.reason LIKE 'hold: %' THEN NULL ELSE event.reason END,
    locked_by = NULL,
    locked_at = NULL,
    token = NULL
FROM free
WHERE event.seq = free.seq
RETURNING event.seq;
