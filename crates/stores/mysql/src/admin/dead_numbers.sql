SELECT seq, event_id
FROM outbox_event FORCE INDEX (outbox_event_dead)
WHERE is_dead = 1
    AND seq BETWEEN ? AND ?
FOR UPDATE
