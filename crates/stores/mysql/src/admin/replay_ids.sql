UPDATE outbox_event FORCE INDEX (outbox_event_id)
SET
    status = 2,
    attempts = 0,
    starts = 0,
    due_at = UTC_TIMESTAMP(6),
    available_at = UTC_TIMESTAMP(6),
    reason = NULL
WHERE event_id IN (?)
    AND status = 3
