SELECT
    outbox_event.event_id,
    outbox_event.seq,
    outbox_event.created_at,
    outbox_event.token
FROM json_each(?1) AS asked
CROSS JOIN outbox_event ON outbox_event.event_id = asked.value
WHERE outbox_event.status NOT IN (1, 3);
