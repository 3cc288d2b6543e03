INSERT INTO outbox_event (
    event_id,
    event_type,
    aggregate_type,
    aggregate_id,
    tenant_id,
    event_key,
    event_partition,
    occurred_at,
    headers,
    context,
    payload,
    payload_bytes,
    due_at,
    available_at
)
VALUES (
    ?1,
    ?2,
    ?3,
    ?4,
    ?5,
    ?6,
    ?7,
    ?8,
    ?9,
    ?10,
    ?11,
    ?12,
    coalesce(?13, CAST(round(unixepoch('subsec') * 1000) AS INTEGER) * 1000 + ?14),
    coalesce(?13, CAST(round(unixepoch('subsec') * 1000) AS INTEGER) * 1000 + ?14)
)
