SELECT seq
FROM outbox_event FORCE INDEX (outbox_event_fresh)
WHERE fresh_in >= -1
    AND (token IS NOT NULL OR available_at = TIMESTAMP '9999-12-31 23:59:59.999999')
UNION ALL
SELECT seq
FROM outbox_event FORCE INDEX (outbox_event_aside)
WHERE aside_in >= 0
    AND (token IS NOT NULL OR available_at = TIMESTAMP '9999-12-31 23:59:59.999999')
