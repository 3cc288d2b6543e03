DELETE FROM outbox_meta
WHERE name = 'paused:' || $1::text;
