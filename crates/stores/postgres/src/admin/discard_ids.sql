DELETE FROM outbox_event
WHERE status = 3
    AND event_id = ANY ($1)
RETURNING event_id;
