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
    concat('event-', lpad(seq, 7, '0')),
    'OrderPlaced',
    'Order',
    concat('order-', seq % {keys}),
    concat('order-', seq % {keys}),
    'acme',
    '{"region":"eu-1"}',
    concat('{"number":', seq, '}')
FROM seq_{first}_to_{last}
ORDER BY seq;
