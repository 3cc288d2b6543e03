SELECT seq
FROM outbox_event
LIMIT 0
