SELECT count(*)
FROM outbox_event
CROSS JOIN orders ON orders.event_id = outbox_event.event_id
WHERE outbox_event.status IN (0, 2)
    AND orders.run = ?1;
