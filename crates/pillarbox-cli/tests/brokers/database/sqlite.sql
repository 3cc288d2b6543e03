WITH RECURSIVE numbers (number) AS (
    VALUES ({first})
    UNION ALL
    SELECT number + 1 FROM numbers WHERE number < {last}
)
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
    printf('event-%07d', number),
    'OrderPlaced',
    'Order',
    'order-' || (number % {keys}),
    'order-' || (number % {keys}),
    'acme',
    '{"region":"eu-1"}',
    '{"number":' || number || '}'
FROM numbers
ORDER BY number;
