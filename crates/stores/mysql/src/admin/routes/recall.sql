UPDATE outbox_event FORCE INDEX (PRIMARY)
SET
    available_at = due_at,
    reason = NULL
WHERE seq IN (?)
    AND reason = ?
    AND status = 2
    AND token IS NULL
