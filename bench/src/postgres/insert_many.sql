INSERT INTO outbox_event (
    event_id,
    event_type,
    aggregate_type,
    aggregate_id,
    event_key,
    event_partition,
    occurred_at,
    payload
)
