SELECT count(*)
FROM outbox_event
LEFT JOIN orders ON orders.event_id = outbox_event.event_id
WHERE orders.event_id IS NULL;
