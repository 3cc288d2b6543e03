WITH outbox AS MATERIALIZED (
    SELECT coalesce((SELECT value FROM outbox_meta WHERE name = 'mode'), 'claims') AS mode
)
SELECT
    outbox.mode,
    statement_timestamp() AS now,
    event.*
FROM outbox
LEFT JOIN LATERAL (
    SELECT
        seq,
        event_id,
        event_type,
        aggregate_type,
        aggregate_id,
        tenant_id,
        event_key,
        event_partition,
        occurred_at,
        headers,
        context,
        payload,
        payload_bytes,
        handlers,
        status,
        attempts,
        starts,
        created_at,
        due_at,
        available_at
    FROM outbox_event
    WHERE outbox.mode = 'ownership'
        AND aside_at IS NOT NULL
        AND event_partition = $1
        AND event_key = $2
        AND coalesce(reason, '') NOT IN ('delayed', 'replayed')
        AND seq NOT IN (SELECT unnest($3::bigint[]))
    ORDER BY seq
    LIMIT $4
) AS event ON TRUE;
