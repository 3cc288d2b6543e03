-- Fresh events are counted from the floors on: what lies below is done.
WITH pending AS (
    SELECT
        fresh.count AS fresh,
        0 AS retry,
        fresh.oldest_due_at
    FROM outbox_partition AS lease
    CROSS JOIN LATERAL (
        SELECT count(*), min(due_at) AS oldest_due_at
        FROM outbox_event
        WHERE event_partition = lease.event_partition
            AND (event_partition, seq) > (lease.event_partition, lease.floor)
            AND status = 0
    ) AS fresh
    UNION ALL
    -- What is in no partition that there is.
    SELECT count(*), 0, min(due_at)
    FROM outbox_event
    WHERE coalesce(event_partition, -1) NOT BETWEEN 0 AND 255
        AND status = 0
    UNION ALL
    SELECT 0, count(*), min(due_at)
    FROM outbox_event
    WHERE aside_at IS NOT NULL
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
