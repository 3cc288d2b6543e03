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
WHERE fresh_in = ?
    AND seq > ?
ORDER BY seq
LIMIT ?
