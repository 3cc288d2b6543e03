UPDATE outbox_event FORCE INDEX (PRIMARY)
SET
    available_at = due_at,
    locked_by = NULL,
    locked_at = NULL,
    token = NULL
WHERE seq IN (?)
    AND status IN (0, 2)
    AND locked_by <> ?
    AND CHAR_LENGTH(locked_by) = CHAR_LENGTH(?)
    AND LEFT(locked_by, CHAR_LENGTH(?)) = ?
