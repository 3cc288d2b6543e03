INSERT INTO outbox_event (
    status,
    done_at,
    event_id,
    event_type,
    aggregate_type,
    aggregate_id,
    event_key,
    event_partition,
    payload
)
SELECT
    CASE WHEN $4 THEN 1 ELSE 0 END,
    CASE WHEN $4 THEN statement_timestamp() END,
    lpad(number::text, 26, '0'),
    'OrderPlaced',
    'Order',
    'order-' || number,
    event_key,
    event_partition,
    format(
        '{"order":"order-%s","customer":"customer-4711","total":129900,"currency":"EUR","items":[{"sku":"A-17","count":2},{"sku":"B-4","count":1}]}',
        number
    )::json
FROM unnest($1::bigint[], $2::text[], $3::smallint[]) AS filled (number, event_key, event_partition);
