UPDATE outbox_event FORCE INDEX (PRIMARY)
SET
    available_at = UTC_TIMESTAMP(6) + INTERVAL ? MICROSECOND,
    locked_by = ?,
    locked_at = UTC_TIMESTAMP(6),
    token = ?,
    starts = starts + 1
WHERE seq IN (?)
