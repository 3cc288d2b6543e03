UPDATE outbox_event FORCE INDEX (PRIMARY)
SET
    available_at = due_at,
    locked_by = NULL,
    locked_at = NULL,
    token = NULL
WHERE seq IN (?)
    AND status IN (0, 2)
