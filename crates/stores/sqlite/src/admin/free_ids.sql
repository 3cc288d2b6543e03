DELETE FROM outbox_parked
WHERE event_id IN (SELECT value FROM json_each(?1))
RETURNING event_id;
