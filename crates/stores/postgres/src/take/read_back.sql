SELECT
    event.event_id,
    event.seq,
    event.created_at
FROM unnest($1::text[], $2::bigint[]) AS asked (event_id, token)
JOIN outbox_event AS event ON event.event_id = asked.event_id
WHERE event.token = asked.token
    AND event.status NOT IN (1, 3);
