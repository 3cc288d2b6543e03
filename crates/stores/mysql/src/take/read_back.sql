SELECT event_id, seq, created_at
FROM outbox_event FORCE INDEX (outbox_event_id)
WHERE event_id IN (?)
    AND token = ?
    AND status IN (0, 2)
