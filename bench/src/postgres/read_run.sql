SELECT
    seq,
    event_id,
    event_type,
    aggregate_type,
    aggregate_id,
    event_key,
    headers::text,
    attempts,
    payload::text
FROM outbox_event
WHERE status = 0
    AND event_partition = $1
    AND seq > $2
ORDER BY seq
LIMIT $3;
