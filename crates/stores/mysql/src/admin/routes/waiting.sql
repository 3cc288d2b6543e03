SELECT seq
FROM outbox_event FORCE INDEX (outbox_event_pending)
WHERE is_pending = 1
    AND available_at > UTC_TIMESTAMP(6)
    AND available_at < TIMESTAMP '9999-12-31 23:59:59.999999'
    AND reason = ?
    AND token IS NULL
ORDER BY available_at, seq
LIMIT ?
