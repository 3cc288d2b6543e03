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
    status,
    due_at,
    available_at,
    done_at,
    locked_by,
    last_error,
    reason
FROM outbox_event FORCE INDEX (outbox_event_dead)
WHERE is_dead = 1
    AND seq > ?
ORDER BY seq
LIMIT ?
