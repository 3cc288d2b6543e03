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
FROM outbox_event INDEXED BY outbox_event_aggregate
WHERE aggregate_id = ?1
    AND seq > ?2
ORDER BY seq
LIMIT ?3;
