UPDATE outbox_event
SET
    status = 1,
    done_at = UTC_TIMESTAMP(6),
    locked_by = NULL,
    locked_at = NULL,
    token = NULL
WHERE token = ?
    AND status IN (0, 2)
    AND seq IN (?)
