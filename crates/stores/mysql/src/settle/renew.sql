UPDATE outbox_event FORCE INDEX (PRIMARY)
SET available_at = UTC_TIMESTAMP(6) + INTERVAL ? MICROSECOND
WHERE seq IN (?)
    AND token = ?
    AND status IN (0, 2)
