WITH birth (lease_for, owner, token) AS (VALUES (?, ?, ?))
INSERT INTO outbox_event (
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
    CAST(round(unixepoch('subsec') * 1000) AS INTEGER) * 1000,
    coalesce(column12, CAST(round(unixepoch('subsec') * 1000) AS INTEGER) * 1000 + column13),
    coalesce(column12, CAST(round(unixepoch('subsec') * 1000) AS INTEGER) * 1000 + iif(column14, lease_for, column13)),
    iif(column14, owner, NULL),
    iif(column14, CAST(round(unixepoch('subsec') * 1000) AS INTEGER) * 1000, NULL),
    iif(column14, token, NULL),
    column14
FROM birth
CROSS JOIN (VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?))
WHERE column1 IS NOT NULL;
