SELECT
    seq,
    event_id,
    event_type,
    aggregate_type,
    aggregate_id,
    event_key,
    headers,
    attempts,
    payload
FROM outbox_event FORCE INDEX (outbox_event_pending)
WHERE is_pending = 1
    AND available_at <= UTC_TIMESTAMP(6)
ORDER BY available_at, seq
LIMIT ?
FOR UPDATE SKIP LOCKED
