-- Each part has its own limit: without it the planner would join or read them in other ways.
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
    WHERE status IN (0, 2)
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
