SELECT seq
FROM outbox_event FORCE INDEX (outbox_event_fresh)
WHERE status IN (0, 2)
    AND (token IS NOT NULL OR available_at = TIMESTAMP '9999-12-31 23:59:59.999999')
