SELECT
    event_partition,
    count(*) AS fresh,
    0 AS aside,
    CAST(round(unixepoch('subsec') * 1000) AS INTEGER) * 1000 - min(due_at) AS oldest_due_for
FROM outbox_event INDEXED BY outbox_event_fresh
WHERE status NOT IN (1, 2, 3)
GROUP BY event_partition
UNION ALL
SELECT
    event_partition,
    0,
    count(*),
    CAST(round(unixepoch('subsec') * 1000) AS INTEGER) * 1000 - min(due_at)
FROM outbox_event INDEXED BY outbox_event_aside
WHERE status = 2
GROUP BY event_partition;
