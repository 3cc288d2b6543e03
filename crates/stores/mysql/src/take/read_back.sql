SELECT event_id, seq, created_at, token
FROM outbox_event FORCE INDEX (outbox_event_id)
WHERE event_id IN (?)
    AND status IN (0, 2)
