WITH birth (lease_for, owner) AS (VALUES (?, ?))
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
    created_at,
    due_at,
    available_at,
    locked_by,
    locked_at,
    token,
    starts
)
SELECT
    column1,
    column2,
    column3,
    column4,
    column5,
    column6,
    column7,
    column8,
    column9,
    column10,
    column11,
    column12,
    CAST(round(unixepoch('subsec') * 1000) AS INTEGER) * 1000,
    coalesce(column13, CAST(round(unixepoch('subsec') * 1000) AS INTEGER) * 1000 + column14),
    coalesce(column13, CAST(round(unixepoch('subsec') * 1000) AS INTEGER) * 1000 + iif(column15 IS NULL, column14, lease_for)),
    iif(column15 IS NULL, NULL, owner),
    iif(column15 IS NULL, NULL, CAST(round(unixepoch('subsec') * 1000) AS INTEGER) * 1000),
    column15,
    column15 IS NOT NULL
FROM birth
CROSS JOIN (VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?))
WHERE column1 IS NOT NULL;
