UPDATE outbox_event
SET
    status = 2,
    attempts = 0,
    starts = 0,
    due_at = statement_timestamp(),
    available_at = statement_timestamp(),
    reason = NULL
WHERE status = 3
    AND seq BETWEEN $1 AND $2;
