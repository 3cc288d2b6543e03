SELECT
    event_partition,
    COUNT(IF(status = 0, 1, NULL)) AS fresh,
    COUNT(IF(status = 2, 1, NULL)) AS aside,
    TIMESTAMPDIFF(MICROSECOND, MIN(due_at), UTC_TIMESTAMP(6)) AS oldest_due_for
FROM outbox_event FORCE INDEX (outbox_event_fresh)
WHERE status IN (0, 2)
GROUP BY status, event_partition
