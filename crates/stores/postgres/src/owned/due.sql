WITH outbox AS MATERIALIZED (
    SELECT coalesce((SELECT value FROM outbox_meta WHERE name = 'mode'), 'claims') AS mode
),
due AS MATERIALIZED (
    SELECT
        aside.seq,
        aside.available_at
    FROM outbox
    CROSS JOIN unnest($1::smallint[]) AS visit (event_partition)
    CROSS JOIN LATERAL (
        SELECT seq, available_at
        FROM outbox_event
        WHERE status = 2
            AND event_partition = visit.event_partition
            AND available_at <= statement_timestamp()
            AND seq NOT IN (SELECT unnest($2::bigint[]))
        ORDER BY available_at, seq
        LIMIT $3
    ) AS aside
    WHERE outbox.mode = 'ownership'
    ORDER BY aside.available_at, aside.seq
    LIMIT $3
)
SELECT
    outbox.mode,
    statement_timestamp() AS now,
    CASE
        WHEN outbox.mode = 'ownership' AND (SELECT count(*) FROM due) < $3 THEN (
            SELECT min(next.available_at)
            FROM unnest($1::smallint[]) AS visit (event_partition)
            CROSS JOIN LATERAL (
                SELECT available_at
                FROM outbox_event
                WHERE status = 2
                    AND event_partition = visit.event_partition
                    AND available_at > statement_timestamp()
                    AND available_at < 'infinity'
                ORDER BY available_at
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
        event.status,
        event.attempts,
        event.starts,
        event.created_at,
        event.due_at,
        event.available_at
    FROM due
    JOIN outbox_event AS event ON event.seq = due.seq
) AS event ON TRUE;
