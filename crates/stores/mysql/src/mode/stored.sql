SELECT value
FROM outbox_meta
WHERE name = 'mode'
