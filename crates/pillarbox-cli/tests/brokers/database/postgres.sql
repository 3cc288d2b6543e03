INSERT INTO outbox_event (
    event_id,
    event_type,
    aggregate_type,
    aggregate_id,
    event_key,
    tenant_id,
    headers,
    payload
)
SELECT
    'event-' || lpad(number::text, 7, '0'),
    'OrderPlaced',
    'Order',
    'order-' || number % {keys},
    'order-' || number % {keys},
    'acme',
    '{"region":"eu-1"}'::json,
    ('{"number":' || number || '}')::json
FROM generate_series({first}, {last}) AS number
ORDER BY number;
