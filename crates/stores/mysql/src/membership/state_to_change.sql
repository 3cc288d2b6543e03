SELECT value
FROM outbox_meta FORCE INDEX (PRIMARY)
WHERE name = 'mode'
FOR UPDATE
