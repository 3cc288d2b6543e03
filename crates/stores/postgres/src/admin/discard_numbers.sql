DELETE FROM outbox_event
WHERE status = 3
    AND seq BETWEEN $1 AND $2
RETURNING event_id;
