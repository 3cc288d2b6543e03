WITH due AS MATERIALIZED (
    SELECT seq, available_at
    FROM outbox_event
    WHERE status IN (0, 2)
        AND available_at > statement_timestamp() + interval '1 hour'
        AND token IS NOT NULL
    ORDER BY available_at, seq
    LIMIT $1
    FOR UPDATE SKIP LOCKED
),
claimed AS (
    UPDATE outbox_event AS event
    SET
        available_at = statement_timestamp() + $2 * interval '1 microsecond',
        locked_by = $3,
        locked_at = statement_timestamp(),
        token = $4,
        starts = event.starts + 1
    FROM due
    WHERE event.seq = due.seq
    RETURNING
        event.seq,
        event.event_id,
        event.event_type,
        event.aggregate_type,
        event.aggregate_id,
        event.tenant_id,
        event.event_key,
        event.occurred_at,
        event.headers,
        event.context,
        event.payload,
        event.payload_bytes,
        event.handlers,
        event.attempts,
        event.starts - 1 AS starts,
        event.created_at,
        event.due_at,
        due.available_at AS was_available_at
)
SELECT
    claimed.*,
    statement_timestamp() AS now
FROM claimed;
