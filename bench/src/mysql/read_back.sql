SELECT
    seq,
    TIMESTAMPDIFF(MICROSECOND, '1970-01-01', created_at)
FROM outbox_event
WHERE event_id = ?
