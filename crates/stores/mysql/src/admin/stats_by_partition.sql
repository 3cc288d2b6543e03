SELECT
    COUNT(*) AS pending,
    COUNT(IF(status = 2, 1, NULL)) AS retry,
    TIMESTAMPDIFF(MICROSECOND, MIN(due_at), UTC_TIMESTAMP(6)) AS oldest_due_for,
    (SELECT COUNT(*) FROM outbox_event FORCE INDEX (outbox_event_dead) WHERE is_dead = 1) AS dead,
    (SELECT MAX(seq) FROM outbox_event) AS last,
    (SELECT MIN(seq) FROM outbox_event) AS first
FROM outbox_event FORCE INDEX (outbox_event_fresh)
WHERE status IN (0, 2)
