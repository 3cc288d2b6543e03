SELECT outbox_event.event_id
FROM json_each(?1) AS inserted
CROSS JOIN outbox_event ON outbox_event.event_id = inserted.value
ORDER BY inserted.key
LIMIT 1;
