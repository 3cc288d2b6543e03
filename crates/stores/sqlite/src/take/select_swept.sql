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
FROM outbox_event NOT INDEXED
WHERE seq IN (SELECT value FROM json_each(?1))
    AND status NOT IN (1, 3)
    AND token IS NOT NULL
    AND available_at > CAST(round(unixepoch('subsec') * 1000) AS INTEGER) * 1000 + 3600000000
ORDER BY available_at, seq;
