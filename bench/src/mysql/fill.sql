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
    IF(?, 1, 0),
    IF(?, UTC_TIMESTAMP(6), NULL),
    LPAD(filled.number, 26, '0'),
    'OrderPlaced',
    'Order',
    CONCAT('order-', filled.number),
    filled.event_key,
    filled.event_partition,
    CONCAT(
        '{"order":"order-',
        filled.number,
        '","customer":"customer-4711","total":129900,"currency":"EUR","items":[{"sku":"A-17","count":2},{"sku":"B-4","count":1}]}'
    )
FROM JSON_TABLE(
    ?,
    '$[*]' COLUMNS (
        number BIGINT PATH '$[0]',
        event_partition SMALLINT PATH '$[1]',
        event_key VARCHAR(128) CHARACTER SET utf8mb4 PATH '$[2]'
    )
) AS filled
