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
    TIMESTAMP '1970-01-01 00:00:00' + INTERVAL ?8 MICROSECOND,
    ?9,
    ?10,
    ?11,
    ?12,
    coalesce(
        TIMESTAMP '1970-01-01 00:00:00' + INTERVAL ?13 MICROSECOND,
        UTC_TIMESTAMP(6) + INTERVAL ?14 MICROSECOND
    ),
    coalesce(
        TIMESTAMP '1970-01-01 00:00:00' + INTERVAL ?13 MICROSECOND,
        UTC_TIMESTAMP(6) + INTERVAL ?14 MICROSECOND
    )
)
