WITH pending AS (
    SELECT
        count(*) AS fresh,
        0 AS retry,
        min(due_at) AS oldest_due_at
    FROM outbox_event
    WHERE status = 0
    UNION ALL
    SELECT
        0,
        count(*),
        min(due_at)
    FROM outbox_event
    WHERE status = 2
)
SELECT
    sum(fresh)::bigint AS new,
    sum(retry)::bigint AS retry,
    statement_timestamp() AS now,
    min(oldest_due_at) AS oldest_due_at,
    (SELECT count(*) FROM outbox_event WHERE is_dead) AS dead,
    (SELECT min(seq) FROM outbox_event) AS first,
    (SELECT max(seq) FROM outbox_event) AS last
FROM pending;
