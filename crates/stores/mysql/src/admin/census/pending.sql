SELECT
    fresh_in AS event_partition,
    COUNT(*) AS fresh,
    CAST(0 AS SIGNED) AS aside,
    TIMESTAMPDIFF(MICROSECOND, MIN(due_at), UTC_TIMESTAMP(6)) AS oldest_due_for
FROM outbox_event FORCE INDEX (outbox_event_fresh)
WHERE fresh_in >= -1
GROUP BY fresh_in
UNION ALL
SELECT
    aside_in,
    CAST(0 AS SIGNED),
    COUNT(*),
    TIMESTAMPDIFF(MICROSECOND, MIN(due_at), UTC_TIMESTAMP(6))
FROM outbox_event FORCE INDEX (outbox_event_aside)
WHERE aside_in >= 0
GROUP BY aside_in
