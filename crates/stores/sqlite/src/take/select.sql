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
    status,
    attempts,
    starts,
    created_at,
    CAST(round(unixepoch('subsec') * 1000) AS INTEGER) * 1000 - due_at AS due_for
FROM outbox_event INDEXED BY outbox_event_pending
WHERE status NOT IN (1, 3)
    AND available_at <= CAST(round(unixepoch('subsec') * 1000) AS INTEGER) * 1000
    AND (?2 = 0 OR created_at <= CAST(round(unixepoch('subsec') * 1000) AS INTEGER) * 1000 - ?2)
ORDER BY available_at, seq
LIMIT ?1;
