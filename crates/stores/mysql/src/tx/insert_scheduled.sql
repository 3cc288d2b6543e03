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
    available_at,
    locked_by,
    token,
    locked_at,
    starts
)
VALUES (
    ?,
    ?,
    ?,
    ?,
    ?,
    ?,
    ?,
    TIMESTAMP '1970-01-01 00:00:00' + INTERVAL ? MICROSECOND,
    ?,
    ?,
    ?,
    ?,
    COALESCE(
        TIMESTAMP '1970-01-01 00:00:00' + INTERVAL ? MICROSECOND,
        UTC_TIMESTAMP(6) + INTERVAL ? MICROSECOND
    ),
    COALESCE(
        TIMESTAMP '1970-01-01 00:00:00' + INTERVAL ? MICROSECOND,
        UTC_TIMESTAMP(6) + INTERVAL ? MICROSECOND
    ),
    ?,
    ?,
    UTC_TIMESTAMP(6) + INTERVAL ? MICROSECOND,
    ?
)
