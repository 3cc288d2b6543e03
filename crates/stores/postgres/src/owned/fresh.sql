WITH outbox AS MATERIALIZED (
    SELECT
        coalesce((SELECT value FROM outbox_meta WHERE name = 'mode'), 'claims') AS mode,
        (SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM outbox_event_seq_seq) AS highest
),
unplaced AS MATERIALIZED (
    SELECT
        outbox.mode = 'ownership' AND EXISTS (
            SELECT
            FROM outbox_event
            WHERE coalesce(event_partition, -1) NOT BETWEEN 0 AND 255
        ) AS is_there
    FROM outbox
)
SELECT
    outbox.mode,
    outbox.highest,
    unplaced.is_there AS has_unplaced,
    clock_timestamp() AS now,
    fresh.*
FROM outbox
CROSS JOIN unplaced
LEFT JOIN LATERAL (
    SELECT event.*
    FROM unnest($1::smallint[], $2::bigint[], $3::bigint[]) AS visit (event_partition, above, up_to)
    CROSS JOIN LATERAL (
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
            -- It may come before one of its key that would be read here.
            AND NOT unplaced.is_there
            AND status = 0
            -- As pairs, which the primary key cannot compare: by it every visit would step over all other partitions.
            AND (event_partition, seq) > (visit.event_partition, visit.above)
            AND (event_partition, seq) <= (visit.event_partition, visit.up_to)
            AND seq NOT IN (SELECT unnest($4::bigint[]))
        ORDER BY event_partition, seq
        LIMIT $5
    ) AS event
) AS fresh ON TRUE;
