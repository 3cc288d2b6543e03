SELECT value
FROM outbox_meta
WHERE name = 'instance/' || $1;
