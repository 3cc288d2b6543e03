DELETE FROM outbox_event
WHERE status NOT IN (0, 1, 2)
    AND event_id = ANY ($1)
RETURNING event_id;
