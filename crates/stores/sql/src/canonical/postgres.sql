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
    $1,
    $2,
    $3,
    $4,
    $5,
    $6,
    $7,
    timestamptz 'epoch' + $8 / 1000000 * interval '1 second' + $8 % 1000000 * interval '1 microsecond',
    $9::json,
    $10::json,
    $11::json,
    $12,
    coalesce(
        timestamptz 'epoch' + $13 / 1000000 * interval '1 second' + $13 % 1000000 * interval '1 microsecond',
        statement_timestamp() + $14 * interval '1 microsecond'
    ),
    coalesce(
        timestamptz 'epoch' + $13 / 1000000 * interval '1 second' + $13 % 1000000 * interval '1 microsecond',
        statement_timestamp() + $14 * interval '1 microsecond'
    )
)
