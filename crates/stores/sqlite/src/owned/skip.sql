DELETE FROM outbox_parked
WHERE event_key IN (SELECT value FROM json_each(?1));
