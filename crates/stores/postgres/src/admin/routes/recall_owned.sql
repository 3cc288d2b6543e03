WITH waiting AS MATERIALIZED (
    SELECT event.seq
    FROM generate_series(0, 255) AS visit (event_partition)
    CROSS JOIN LATERAL (
        SELECT seq
        FROM outbox_event
        WHERE event_partition = visit.event_partition::smallint
            AND aside_at > statement_timestamp()
            AND aside_at < 'infinity'
            AND reason = $1
        ORDER BY aside_at, seq
        LIMIT $2
    ) AS aside
    JOIN outbox_event AS event ON event.seq = aside.seq
    WHERE event.reason = $1
    LIMIT $2
    FOR UPDATE OF event SKIP LOCKED
)
UPDATE outbox_event AS event
SET
    available_at = event.due_at,
    reason = NULL
FROM waiting
WHERE event.seq = waiting.seq;
