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
FROM outbox_event FORCE INDEX (outbox_event_pending)
WHERE is_pending = 1
    AND available_at <= UTC_TIMESTAMP(6)
    AND (? = 0 OR created_at <= UTC_TIMESTAMP(6) - INTERVAL ? MICROSECOND)
ORDER BY available_at, seq
LIMIT ?
FOR UPDATE SKIP LOCKED
