SELECT
    CAST(SUM(counted.pending) AS SIGNED) AS pending,
    CAST(SUM(counted.retry) AS SIGNED) AS retry,
    TIMESTAMPDIFF(MICROSECOND, MIN(counted.due_at), UTC_TIMESTAMP(6)) AS oldest_due_for,
    (SELECT COUNT(*) FROM outbox_event FORCE INDEX (outbox_event_dead) WHERE is_dead = 1) AS dead,
    (SELECT MAX(seq) FROM outbox_event) AS last,
    (SELECT MIN(seq) FROM outbox_event) AS first
FROM (
    SELECT COUNT(*) AS pending, COUNT(IF(status = 2, 1, NULL)) AS retry, MIN(due_at) AS due_at
    FROM outbox_event FORCE INDEX (outbox_event_fresh)
    WHERE fresh_in >= -1
    UNION ALL
    SELECT COUNT(*), COUNT(*), MIN(due_at)
    FROM outbox_event FORCE INDEX (outbox_event_aside)
    WHERE aside_in >= 0
) AS counted
