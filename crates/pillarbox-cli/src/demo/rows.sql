SELECT
    orders.event_id,
    outbox_event.status
FROM orders
LEFT JOIN outbox_event ON outbox_event.event_id = orders.event_id
WHERE orders.run = ?1;
