WITH RECURSIVE outbox AS MATERIALIZED (
    SELECT coalesce((SELECT value FROM outbox_meta WHERE name = 'mode'), 'claims') AS mode
),
-- From key to key: one costs the same however many events wait for it.
head (event_partition, event_key, seq, available_at) AS (
    SELECT first.*
    FROM outbox
    CROSS JOIN unnest($1::smallint[]) AS asked (event_partition)
    CROSS JOIN LATERAL (
        SELECT event_partition, event_key, seq, available_at
        FROM outbox_event
        WHERE aside_at IS NOT NULL
            AND event_key IS NOT NULL
            AND coalesce(reason, '') NOT IN ('delayed', 'replayed')
            AND event_partition = asked.event_partition
        ORDER BY event_key, seq
        LIMIT 1
    ) AS first
    WHERE outbox.mode = 'ownership'
    UNION ALL
    SELECT next.*
    FROM head
    CROSS JOIN LATERAL (
        SELECT event_partition, event_key, seq, available_at
        FROM outbox_event
        WHERE aside_at IS NOT NULL
            AND event_key IS NOT NULL
            AND coalesce(reason, '') NOT IN ('delayed', 'replayed')
            AND event_partition = head.event_partition
            AND event_key > head.event_key
        ORDER BY event_key, seq
        LIMIT 1
    ) AS next
)
SELECT
    outbox.mode,
    statement_timestamp() AS now,
    blocked.*
FROM outbox
LEFT JOIN (
    SELECT event_partition, event_key, seq, available_at, NULL AS parked_for
    FROM head
    UNION ALL
    SELECT event_partition, event_key, NULL, NULL, event_id
    FROM outbox_parked
    WHERE event_partition = ANY ($1)
) AS blocked ON TRUE;
