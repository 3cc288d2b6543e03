UPDATE outbox_event FORCE INDEX (PRIMARY)
SET
    status = 1,
    done_at = UTC_TIMESTAMP(6),
    reason = NULL,
    handlers = NULL,
    locked_by = NULL,
    locked_at = NULL,
    token = NULL
WHERE seq IN (?)
    AND token = ?
    AND status IN (0, 2)
