UPDATE outbox_event
SET
    status = 2,
    attempts = 0,
    starts = 0,
    due_at = statement_timestamp(),
    available_at = statement_timestamp(),
    reason = NULL
WHERE status NOT IN (0, 1, 2)
    AND event_id = ANY ($1);
