WITH outbox AS MATERIALIZED (
    SELECT coalesce((SELECT value FROM outbox_meta WHERE name = 'mode'), 'claims') AS mode
),
due AS MATERIALIZED (
    SELECT
        aside.seq,
        aside.aside_at
    FROM outbox
    CROSS JOIN unnest($1::smallint[]) AS visit (event_partition)
    CROSS JOIN LATERAL (
        SELECT seq, aside_at
        FROM outbox_event
        WHERE event_partition = visit.event_partition
            AND aside_at <= statement_timestamp()
            AND seq NOT IN (SELECT unnest($2::bigint[]))
        ORDER BY aside_at, seq
        LIMIT $3
    ) AS aside
    WHERE outbox.mode = 'ownership'
    ORDER BY aside.aside_at, aside.seq
    LIMIT $3
)
SELECT
    outbox.mode,
    statement_timestamp() AS now,
    CASE
        WHEN outbox.mode = 'ownership' AND (SELECT count(*) FROM due) < $3 THEN (
            SELECT min(next.aside_at)
            FROM unnest($1::smallint[]) AS visit (event_partition)
            CROSS JOIN LATERAL (
                SELECT aside_at
                FROM outbox_event
                WHERE event_partition = visit.event_partition
                    AND aside_at > statement_timestamp()
                    AND aside_at < 'infinity'
                ORDER BY aside_at
                LIMIT 1
            ) AS next
        )
    END AS next_due_at,
    event.*
FROM outbox
LEFT JOIN LATERAL (
    SELECT
        event.seq,
        event.event_id,
        event.event_type,
        event.aggregate_type,
        event.aggregate_id,
        event.tenant_id,
        event.event_key,
        event.event_partition,
        event.occurred_at,
        event.headers,
        event.context,
        event.payload,
        event.payload_bytes,
        event.handlers,
        event.status,
        event.attempts,
        event.starts,
        event.created_at,
        event.due_at,
        event.available_at
    FROM due
    JOIN outbox_event AS event ON event.seq = due.seq
) AS event ON TRUE;
