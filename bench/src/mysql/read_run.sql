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
FROM outbox_event FORCE INDEX (outbox_event_fresh)
WHERE status = 0
    AND event_partition = ?
    AND seq > ?
ORDER BY seq
LIMIT ?
