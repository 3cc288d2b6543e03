SELECT count(*)
FROM outbox_event
CROSS JOIN orders ON orders.event_id = outbox_event.event_id
WHERE outbox_event.status NOT IN (1, 3)
    AND orders.run = ?1;
