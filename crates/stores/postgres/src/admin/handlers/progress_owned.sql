-- Fresh events are looked for from the floors on: what lies below is done. Each part has its own limit: without it the
-- planner would join or read them in other ways.
(
    SELECT fresh.*
    FROM outbox_partition AS lease
    CROSS JOIN LATERAL (
        SELECT
            seq,
            event_id,
            is_dead IS NOT NULL AS is_dead,
            token IS NOT NULL
                AND available_at > statement_timestamp()
                AND available_at <= statement_timestamp() + interval '1 hour' AS is_leased,
            statement_timestamp() AS now,
            created_at,
            handlers
        FROM outbox_event
        WHERE event_partition = lease.event_partition
            AND (event_partition, seq) > (lease.event_partition, lease.floor)
            AND status = 0
            AND handlers IS NOT NULL
            AND strpos(handlers, $1) > 0
        LIMIT $2
    ) AS fresh
    LIMIT $2
)
UNION ALL
(
    SELECT
        seq,
        event_id,
        is_dead IS NOT NULL AS is_dead,
        token IS NOT NULL
            AND available_at > statement_timestamp()
            AND available_at <= statement_timestamp() + interval '1 hour' AS is_leased,
        statement_timestamp() AS now,
        created_at,
        handlers
    FROM outbox_event
    WHERE aside_at IS NOT NULL
        AND handlers IS NOT NULL
        AND strpos(handlers, $1) > 0
    LIMIT $2
)
UNION ALL
(
    SELECT
        seq,
        event_id,
        is_dead IS NOT NULL AS is_dead,
        token IS NOT NULL
            AND available_at > statement_timestamp()
            AND available_at <= statement_timestamp() + interval '1 hour' AS is_leased,
        statement_timestamp() AS now,
        created_at,
        handlers
    FROM outbox_event
    WHERE is_dead
        AND handlers IS NOT NULL
        AND strpos(handlers, $1) > 0
    LIMIT $2
)
LIMIT $2;
