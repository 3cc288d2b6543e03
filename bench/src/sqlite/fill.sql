WITH RECURSIVE filled (number) AS (
    VALUES (?1)
    UNION ALL
    SELECT number + 1 FROM filled WHERE number + 1 < ?2
)
INSERT INTO outbox_event (
    status,
    done_at,
    event_id,
    event_type,
    aggregate_type,
    aggregate_id,
    event_key,
    payload
)
SELECT
    iif(?3, 1, 0),
    iif(?3, unixepoch() * 1000000, NULL),
    printf('%026d', number),
    'OrderPlaced',
    'Order',
    printf('order-%d', number),
    printf('order-%d', number),
    printf('{"order":"order-%d","customer":"customer-4711","total":129900,"currency":"EUR","items":[{"sku":"A-17","count":2},{"sku":"B-4","count":1}]}', number)
FROM filled;
