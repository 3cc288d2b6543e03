UPDATE outbox_event FORCE INDEX (outbox_event_dead)
SET
    status = 2,
    attempts = 0,
    starts = 0,
    due_at = UTC_TIMESTAMP(6),
    available_at = UTC_TIMESTAMP(6),
    reason = NULL
WHERE is_dead = 1
    AND seq BETWEEN ? AND ?
