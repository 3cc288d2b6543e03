DELETE FROM outbox_parked
WHERE event_key IN (?)
