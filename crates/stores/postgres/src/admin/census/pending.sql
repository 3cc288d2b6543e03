-- Fresh events are counted from the floors on: what lies below is done.
SELECT
    lease.event_partition,
    fresh.count AS fresh,
    0::bigint AS aside,
    fresh.oldest_due_at,
    transaction_timestamp() AS now
FROM outbox_partition AS lease
CROSS JOIN LATERAL (
    SELECT count(*), min(due_at) AS oldest_due_at
    FROM outbox_event
    WHERE event_partition = lease.event_partition
        AND (event_partition, seq) > (lease.event_partition, lease.floor)
        AND status = 0
) AS fresh
WHERE fresh.count > 0
UNION ALL
-- What is in no partition that there is.
SELECT
    NULL,
    fresh.count,
    0,
    fresh.oldest_due_at,
    transaction_timestamp()
FROM (
    SELECT count(*), min(due_at) AS oldest_due_at
    FROM outbox_event
    WHERE event_partition IS NULL
        AND status = 0
    UNION ALL
    SELECT count(*), min(due_at)
    FROM outbox_event
    WHERE event_partition < 0
        AND status = 0
    UNION ALL
    SELECT count(*), min(due_at)
    FROM outbox_event
    WHERE event_partition > 255
        AND status = 0
) AS fresh
WHERE fresh.count > 0
UNION ALL
SELECT
    event_partition,
    0,
    count(*),
    min(due_at),
    transaction_timestamp()
FROM outbox_event
WHERE aside_at IS NOT NULL
GROUP BY event_partition;
