SELECT seq
FROM outbox_event FORCE INDEX (outbox_event_pending)
WHERE is_pending = 1
    AND available_at > UTC_TIMESTAMP(6) + INTERVAL 1 HOUR
    AND token IS NOT NULL
ORDER BY available_at, seq
LIMIT ?
