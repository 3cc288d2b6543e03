SELECT
    event.event_id,
    event.seq,
    event.created_at
FROM unnest($1::text[]) AS asked (event_id)
JOIN outbox_event AS event ON event.event_id = asked.event_id
WHERE event.token = $2
    AND event.status NOT IN (1, 3);
