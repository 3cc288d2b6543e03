UPDATE outbox_event NOT INDEXED
SET
    available_at = due_at,
    locked_by = NULL,
    locked_at = NULL,
    token = NULL
WHERE status NOT IN (1, 3)
    AND (token IS NOT NULL OR available_at = 9223372036854775807);
