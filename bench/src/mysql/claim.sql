UPDATE outbox_event
SET
    available_at = UTC_TIMESTAMP(6) + INTERVAL 300 SECOND,
    locked_by = 'by hand',
    locked_at = UTC_TIMESTAMP(6),
    token = ?,
    starts = starts + 1
WHERE seq IN (?)
