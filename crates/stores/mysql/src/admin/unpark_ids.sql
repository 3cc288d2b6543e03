DELETE FROM outbox_parked
WHERE event_id IN (?)
