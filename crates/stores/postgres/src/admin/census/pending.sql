SELECT
    event_partition,
    count(*) AS fresh,
    0::bigint AS aside,
    min(due_at) AS oldest_due_at,
    transaction_timestamp() AS now
FROM outbox_event
WHERE status = 0
GROUP BY event_partition
UNION ALL
SELECT
    event_partition,
    0,
    count(*),
    min(due_at),
    transaction_timestamp()
FROM outbox_event
WHERE status = 2
GROUP BY event_partition;
