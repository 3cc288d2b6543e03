SELECT
    seq,
    event_id,
    event_type,
    aggregate_type,
    aggregate_id,
    tenant_id,
    event_key,
    occurred_at,
    headers,
    context,
    payload,
    payload_bytes,
    handlers,
    attempts,
    starts,
    created_at,
    TIMESTAMPDIFF(MICROSECOND, due_at, UTC_TIMESTAMP(6)) AS due_for
FROM outbox_event FORCE INDEX (PRIMARY)
WHERE seq IN (?)
    AND status IN (0, 2)
    AND token IS NOT NULL
    AND available_at > UTC_TIMESTAMP(6) + INTERVAL 1 HOUR
ORDER BY available_at, seq
LIMIT ?
FOR UPDATE SKIP LOCKED
