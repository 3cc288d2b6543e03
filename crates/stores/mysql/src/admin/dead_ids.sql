SELECT seq, event_id
FROM outbox_event FORCE INDEX (outbox_event_id)
WHERE event_id IN (?)
    AND status = 3
FOR UPDATE
