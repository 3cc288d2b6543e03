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
    iif(?2, 1, 0),
    iif(?2, unixepoch() * 1000000, NULL),
    printf('%026d', filled.value ->> 0),
    'OrderPlaced',
    'Order',
    printf('order-%d', filled.value ->> 0),
    filled.value ->> 2,
    filled.value ->> 1,
    printf('{"order":"order-%d","customer":"customer-4711","total":129900,"currency":"EUR","items":[{"sku":"A-17","count":2},{"sku":"B-4","count":1}]}', filled.value ->> 0)
FROM json_each(?1) AS filled;
