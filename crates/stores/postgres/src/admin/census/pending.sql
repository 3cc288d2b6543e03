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
    count(*),
    0,
    min(due_at),
    transaction_timestamp()
FROM outbox_event
WHERE coalesce(event_partition, -1) NOT BETWEEN 0 AND 255
    AND status = 0
HAVING count(*) > 0
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
